// Where the boxes of a graph go. Modules are laid out in columns by what waits for what; an open module is laid out the
// same way inside. Pure numbers: the same graph always gets the same places.

const SWEEPS = 4;

/**
 * Places boxes `[{id, wide, high}]` (in reading order) by links `[[from, to]]` (places in that list).
 * Returns {places: [{x, y}], wide, high}.
 */
export function columns(boxes, links, { gapX, gapY, tallest = Infinity }) {
  const up = boxes.map(() => []), down = boxes.map(() => []);
  for (const [from, to] of links) {
    if (from < to) { // others lead back, and do not shape the picture
      up[to].push(from);
      down[from].push(to);
    }
  }
  const column = ranks(boxes, up, down, tallest);
  const stacks = [];
  boxes.forEach((_, at) => (stacks[column[at]] ??= []).push(at));
  const filled = stacks.filter(Boolean);
  const y = new Float64Array(boxes.length);
  const settle = (stack) => {
    let top = 0;
    for (const at of stack) { y[at] = top; top += boxes[at].high + gapY; }
  };
  filled.forEach(settle);
  const middle = (at) => y[at] + boxes[at].high / 2;
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const near = sweep % 2 ? down : up;
    for (const stack of sweep % 2 ? filled.toReversed() : filled) {
      const wish = new Map(stack.map((at) => [at, near[at].length ? near[at].reduce((sum, other) => sum + middle(other), 0) / near[at].length : middle(at)]));
      stack.sort((one, other) => wish.get(one) - wish.get(other) || one - other);
      pull(stack, wish, boxes, y, gapY);
    }
  }
  let x = 0;
  const places = boxes.map(() => null);
  for (const stack of filled) {
    const wide = Math.max(...stack.map((at) => boxes[at].wide));
    for (const at of stack) places[at] = { x: x + (wide - boxes[at].wide) / 2, y: y[at] };
    x += wide + gapX;
  }
  const top = Math.min(0, ...places.map((each) => each.y));
  for (const each of places) each.y -= top;
  return { places, wide: Math.max(0, x - gapX), high: Math.max(0, ...places.map((each, at) => each.y + boxes[at].high)) };
}

/** The column of each: the longest path to it. Those nobody is tied to stand in rows of their own. */
function ranks(boxes, up, down, tallest) {
  const column = boxes.map(() => 0);
  boxes.forEach((_, at) => { column[at] = up[at].reduce((most, other) => Math.max(most, column[other] + 1), 0); });
  for (let at = boxes.length - 1; at >= 0; at--) {
    if (!up[at].length && down[at].length) column[at] = Math.min(...down[at].map((other) => column[other])) - 1;
  }
  const lowest = Math.min(0, ...column);
  const loners = boxes.map((_, at) => at).filter((at) => !up[at].length && !down[at].length);
  if (loners.length > tallest) loners.forEach((at, turn) => { column[at] = lowest + Math.floor(turn / tallest); });
  return column.map((each) => each - lowest);
}

/** Moves the boxes of one column towards where they would like to be, in order and without touching. */
function pull(stack, wish, boxes, y, gap) {
  let blocks = [];
  for (const at of stack) {
    let block = { items: [at], high: boxes[at].high, want: wish.get(at) - boxes[at].high / 2, weight: 1 };
    while (blocks.length) {
      const above = blocks.at(-1);
      if (above.want + above.high + gap <= block.want) break;
      blocks.pop();
      const shifted = block.want - above.high - gap;
      block = {
        items: [...above.items, ...block.items],
        high: above.high + gap + block.high,
        want: (above.want * above.weight + shifted * block.weight) / (above.weight + block.weight),
        weight: above.weight + block.weight,
      };
    }
    blocks.push(block);
  }
  for (const block of blocks) {
    let top = block.want;
    for (const at of block.items) { y[at] = top; top += boxes[at].high + gap; }
  }
}

const NODE = { wide: 176, high: 44 };
const CLOSED = { wide: 176, high: 62 };
const TITLE = 34;
const EDGE = 14;

/** The whole picture: {modules, nodes, links, wide, high}; `open` is a set of modules whose nodes are shown. */
export function picture(graph, open) {
  const members = graph.modules.map((module) => graph.nodes.filter((node) => node.module === module));
  const moduleAt = new Map(graph.modules.map((module, at) => [module, at]));
  const inner = members.map((nodes, at) => (open.has(graph.modules[at]) ? inside(graph, nodes) : null));
  const boxes = graph.modules.map((module, at) => (inner[at] ? { id: module, wide: inner[at].wide + 2 * EDGE, high: inner[at].high + TITLE + EDGE } : { id: module, ...CLOSED }));
  const joined = new Map();
  for (const [from, to, sameHost] of graph.links) {
    const one = moduleAt.get(graph.nodes[from].module), other = moduleAt.get(graph.nodes[to].module);
    if (one !== other) joined.set(`${one} ${other}`, [one, other, sameHost && (joined.get(`${one} ${other}`)?.[2] ?? true)]);
  }
  const outer = columns(boxes, telling([...joined.values()], boxes.length), { gapX: 56, gapY: 22, tallest: 6 });
  const nodes = new Map();
  const modules = graph.modules.map((module, at) => {
    const place = outer.places[at];
    inner[at]?.places.forEach((each, turn) => nodes.set(members[at][turn].at, { x: place.x + EDGE + each.x, y: place.y + TITLE + each.y, ...NODE }));
    return { module, at, open: Boolean(inner[at]), members: members[at].map((node) => node.at), x: place.x, y: place.y, wide: boxes[at].wide, high: boxes[at].high };
  });
  return { modules, nodes, links: between(graph, modules, nodes, moduleAt), wide: outer.wide, high: outer.high };
}

/** Links between modules that no path of others implies. */
function telling(links, many) {
  const next = Array.from({ length: many }, () => []);
  for (const [from, to] of links) if (from < to) next[from].push(to);
  const below = Array.from({ length: many }, () => new Set());
  for (let at = many - 1; at >= 0; at--) for (const to of next[at]) { below[at].add(to); for (const each of below[to]) below[at].add(each); }
  return links.filter(([from, to]) => from > to || !next[from].some((other) => other !== to && below[other].has(to)));
}

function inside(graph, nodes) {
  const at = new Map(nodes.map((node, turn) => [node.at, turn]));
  const links = graph.links.filter(([from, to]) => at.has(from) && at.has(to)).map(([from, to]) => [at.get(from), at.get(to)]);
  return columns(nodes.map((node) => ({ id: node.id, ...NODE })), links, { gapX: 34, gapY: 10, tallest: 8 });
}

/** What is drawn: from node to node where both are in sight, else from and to their modules, each once. */
function between(graph, modules, nodes, moduleAt) {
  const found = new Map();
  const coarse = [];
  for (const [from, to, sameHost] of graph.links) {
    const one = modules[moduleAt.get(graph.nodes[from].module)], other = modules[moduleAt.get(graph.nodes[to].module)];
    if (one === other) {
      if (one.open) found.set(`${from} ${to}`, { from: { node: from }, to: { node: to }, sameHost });
    } else if (!one.open || !other.open) {
      coarse.push([one.at, other.at, sameHost]);
    } else found.set(`${from} ${to}`, { from: { node: from }, to: { node: to }, sameHost });
  }
  const unique = new Map(coarse.map((each) => [`${each[0]} ${each[1]}`, each]));
  for (const [one, other, sameHost] of telling([...unique.values()], modules.length)) {
    found.set(`m ${one} ${other}`, { from: { module: one }, to: { module: other }, sameHost });
  }
  return [...found.values()];
}
