// Graphs by chance: in which of them do boxes touch, or leave their module?
async () => {
    const { picture } = await import("/js/layout.js");
    let seed = 7;
    const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
    const bad = [];
    for (let round = 0; round < 60; round++) {
        const many = 2 + Math.floor(random() * 60), modules = 1 + Math.floor(random() * 9);
        const nodes = Array.from({length: many}, (_, at) => ({id: `m${Math.floor(random() * modules)}.t.n${at}`, at, hosts: 1}));
        for (const node of nodes) node.module = node.id.split(".")[0];
        const links = [];
        for (let to = 1; to < many; to++) for (let n = 0; n < 2; n++) if (random() < 0.6) links.push([Math.floor(random() * to), to, random() < 0.5]);
        const names = [...new Set(nodes.map((node) => node.module))];
        const open = new Set(names.filter(() => random() < 0.5));
        const made = picture({nodes, links, modules: names}, open);
        const apart = (one, other) => one.x + one.wide <= other.x || other.x + other.wide <= one.x || one.y + one.high <= other.y || other.y + other.high <= one.y;
        const check = (boxes) => boxes.forEach((one, at) => boxes.slice(at + 1).forEach((other) => { if (!apart(one, other)) bad.push(round); }));
        check(made.modules);
        check([...made.nodes.values()]);
        for (const each of made.modules) for (const at of each.open ? each.members : []) {
            const node = made.nodes.get(at);
            if (node.x < each.x || node.y < each.y || node.x + node.wide > each.x + each.wide || node.y + node.high > each.y + each.high) bad.push(round);
        }
    }
    return bad;
}
