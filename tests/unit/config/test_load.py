from __future__ import annotations

import os
from pathlib import Path

import pytest

from kubexm import config
from kubexm.config.document import MOST_VALUES
from kubexm.config.load import MOST_BYTES
from kubexm.errors import ConfigError
from tests.unit.config.files import HA, MINIMAL, only, problems, spec


def failure(path: Path | str) -> config.Problem:
    with pytest.raises(config.ConfigErrors) as caught:
        config.load(path)
    (problem,) = caught.value.problems
    return problem


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(HA)
    path.chmod(0o600)
    return path


def test_a_good_file(file: Path) -> None:
    loaded = config.load(file)
    assert loaded.cluster.name == "demo"
    assert loaded.warnings == ()
    assert loaded.source.path == file
    assert loaded.source.directory == file.parent
    assert loaded.source.name == str(file)


def test_the_smallest_file() -> None:
    assert config.loads(MINIMAL).cluster.spec.kubernetes.type == "kubeadm"


def test_json_is_yaml_too() -> None:
    loaded = config.loads(
        '{"metadata": {"name": "demo"}, "spec": {"hosts": [{"name": "a", "address": "10.0.0.1"}],'
        ' "roleGroups": {"etcd": ["a"], "controlPlane": ["a"], "worker": ["a"]}}}'
    )
    assert loaded.cluster.hosts[0].name == "a"


def test_the_source_does_not_show_the_text(file: Path) -> None:
    assert "roleGroups" not in repr(config.load(file))
    assert "roleGroups" in config.load(file).source.text


def test_no_such_file(tmp_path: Path) -> None:
    problem = failure(tmp_path / "nope.yaml")
    assert problem.message == "there is no such file"
    assert "config init" in problem.hint
    assert problem.render().startswith(f"{tmp_path}/nope.yaml: error: there is no such file")


def test_a_directory(tmp_path: Path) -> None:
    assert failure(tmp_path).message == "this is a directory"


def test_a_file_that_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(HA)
    assert failure(tmp_path / "x" / "cluster.yaml").message == "the file cannot be read: Not a directory"


def test_a_file_that_is_too_large(file: Path) -> None:
    file.write_bytes(b"#" * (MOST_BYTES + 1))
    assert failure(file).message == "the file is larger than 4 MiB"


def test_a_file_that_is_not_utf_8(file: Path) -> None:
    file.write_bytes(b"metadata:\n  name: caf\xe9\n")
    problem = failure(file)
    assert (problem.line, problem.column) == (2, 12)
    assert problem.message == "the file is not UTF-8 text"


def test_a_byte_order_mark_is_no_trouble(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf" + HA.encode())
    assert config.load(file).cluster.name == "demo"


def test_windows_line_ends_are_no_trouble(file: Path) -> None:
    file.write_bytes(HA.replace("\n", "\r\n").encode())
    assert config.load(file).cluster.name == "demo"


@pytest.mark.parametrize("text", ["", "\n\n", "# comment\n", "---\n", "~\n"])
def test_an_empty_file(text: str) -> None:
    assert only(text).message == "the file is empty"


@pytest.mark.parametrize("text", ["- a\n", "just text\n", "42\n", "[]\n"])
def test_a_root_that_is_no_mapping(text: str) -> None:
    assert only(text).message == "expected a mapping at the top of the file"


def test_a_control_character_is_named() -> None:
    problem = only(HA.replace("demo", "de\x07mo"))
    assert problem.message == "the character U+0007 is not allowed in YAML"
    assert problem.line == 4


def test_a_file_cannot_steer_the_terminal() -> None:
    (problem, *_) = problems(HA.replace("name: demo", 'name: "\\e[31mdemo"'))
    assert "\x1b" in problem.message
    assert "\x1b" not in problem.render()


def test_aliases_that_grow_without_end_are_stopped() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (problem,) = problems("\n".join(lines))
    assert problem.message == "the anchors and aliases of this file grow into too much data"
    assert str(MOST_VALUES) in problem.hint


def test_an_alias_that_contains_itself() -> None:
    found = problems("metadata: &m {name: demo, labels: *m}\nspec: {}\n")
    assert "this alias contains itself" in [problem.message for problem in found]


@pytest.mark.parametrize("text", ["[" * 500, "{a: " * 3000, "- " * 3000 + "x", "metadata: " + "[" * 80 + "]" * 80])
def test_nesting_without_end_is_stopped(text: str) -> None:
    said = {problem.message for problem in problems(text)}
    assert said & {"the values are nested too deeply", "a list or mapping is not closed"}


def test_anchors_and_merges_work() -> None:
    loaded = config.loads(
        HA.replace(
            '{name: "cp[1:3]", address: "10.0.0.[11:13]"}',
            '&cp {name: "cp[1:3]", address: "10.0.0.[11:13]", port: 2222}',
        ).replace(
            '{name: "w[01:03]", address: "10.0.0.[21:23]"}', '{<<: *cp, name: "w[01:03]", address: "10.0.0.[21:23]"}'
        )
    )
    assert {host.port for host in loaded.cluster.hosts} == {2222}
    assert loaded.cluster.hosts[-1].name == "w03"


def test_a_wrong_value_behind_an_alias_is_shown_where_it_is_used() -> None:
    text = spec("dns: {coredns: {upstream: &u [x]}}\nsystem: {ntpServers: *u, packages: []}\n")
    assert (problems(text)[0].path, problems(text)[0].line) == ("spec.dns.coredns.upstream[0]", 13)
    wrong = spec("system: {sysctl: &s {vm.swappiness: [1]}}\nkubernetes: {featureGates: *s}\n")
    assert [(problem.path, problem.line) for problem in problems(wrong)] == [
        ("spec.system.sysctl", 13),
        ("spec.kubernetes.featureGates", 14),
    ]


def test_all_problems_come_at_once_in_the_order_of_the_lines() -> None:
    text = spec("kubernetes: {type: x, version: 1.30}\nnetwork: {podCIDR: 10.0.0.0/16}\nfoo: 1\nfoo: 2\n")
    found = problems(text)
    assert [problem.path for problem in found] == [
        "spec.kubernetes.type",
        "spec.kubernetes.version",
        "spec.network.podCIDR",
        "spec.foo",
        "spec.foo",
    ]
    assert [problem.line for problem in found] == sorted(problem.line for problem in found)


@pytest.mark.parametrize(
    ("more", "path", "said", "hint"),
    [
        (
            "etcd: {replcias: 3}",
            "spec.etcd.replcias",
            "unknown field `replcias`",
            "`replicas` belongs under `spec.dns.coredns`",
        ),
        ("podCIDR: 10.0.0.0/8", "spec.podCIDR", "unknown field `podCIDR`", "`podCIDR` belongs under `spec.network`"),
        ("kubernetes: {kubeproxy: {}}", "spec.kubernetes.kubeproxy", "unknown field", "did you mean `kubeProxy`?"),
        ("global: {timeout: 5s}", "spec.global.timeout", "unknown field", "did you mean `connectionTimeout`?"),
        (
            "global: {private_key_path: x}",
            "spec.global.private_key_path",
            "unknown field",
            "did you mean `privateKeyPath`?",
        ),
        ("dns: {qqq: 1}", "spec.dns.qqq", "unknown field `qqq`", "valid here: coredns"),
        ("kubernetes: {version: 1.30}", "spec.kubernetes.version", "the number `1.30`", "all three numbers"),
        (
            "kubernetes: {type: Kubeadm}",
            "spec.kubernetes.type",
            "expected one of kubeadm, kubexm",
            "did you mean `kubeadm`?",
        ),
        (
            "kubernetes: {dnsDomain: 5}",
            "spec.kubernetes.dnsDomain",
            "expected text, found the number `5`",
            'put it in quotes: `"5"`',
        ),
        (
            "execution: {parallel: 1.0}",
            "spec.execution.parallel",
            "expected a whole number, found the number `1.0`",
            "",
        ),
        ("execution: {parallel: 0}", "spec.execution.parallel", "must be at least 1, found the number `0`", ""),
        ("global: {port: 70000}", "spec.global.port", "must be at most 65535", ""),
        ("global: {agent: yes}", "spec.global.agent", "expected true or false, found `yes`", "did you mean `true`?"),
        ("global: {user: }", "spec.global.user", "there is no value", "write one, or remove the line"),
        ("addons: {name: x}", "spec.addons", "expected a list, found a mapping", "write each member as `- …`"),
        (
            "system: {packages: nfs-common}",
            "spec.system.packages",
            "expected a list, found `nfs-common`",
            "write `[nfs-common]`",
        ),
        ("network: [flannel]", "spec.network", "expected a mapping, found a list", "write its fields below it"),
        ("addons: [{manifests: [x]}]", "spec.addons[0].name", "this field is required", "add `name: …`"),
        ("network: {plugin: calico}", "spec.network.plugin", "flannel and none exist", "bring your own"),
        (
            "controlPlaneEndpoint: {loadBalancer: kube-vip}",
            "spec.controlPlaneEndpoint.loadBalancer",
            "haproxy and external exist",
            "",
        ),
        (
            "kubernetes: {version: v1.29.0}",
            "spec.kubernetes.version",
            "installs v1.30 to v1.37",
            "nearest supported minor is v1.30",
        ),
        (
            "assets: {sources: [{upstream: false}]}",
            "spec.assets.sources[0].upstream",
            "expected `true`, found `false`",
            "",
        ),
    ],
)
def test_what_is_wrong_and_the_nearest_choice(more: str, path: str, said: str, hint: str) -> None:
    problem = only(spec(more))
    assert problem.path == path
    assert said in problem.message
    assert hint in problem.hint
    assert problem.line == 13


def test_a_problem_points_at_what_it_means() -> None:
    problem = only(spec("kubernetes: {type: Kubeadm}"))
    assert (problem.line, problem.column) == (13, 22)
    assert problem.excerpt[slice(problem.span[0], sum(problem.span))] == "Kubeadm"
    unknown = only(spec("etcd: {replcias: 3}"))
    assert unknown.excerpt[slice(unknown.span[0], sum(unknown.span))] == "replcias"


def test_a_default_that_clashes_is_shown_where_the_file_speaks_of_it() -> None:
    problem = only(spec("network: {podCIDR: 10.96.0.0/12}"))
    assert problem.path == "spec.network.podCIDR"
    assert "serviceCIDR 10.96.0.0/16 overlaps podCIDR" in problem.message


def test_rules_are_checked_beside_wrong_fields_but_not_about_them() -> None:
    text = HA.replace('worker: ["w[01:03]"]', "worker: [w01, w99]").replace(
        '{name: "w[01:03]"', '{port: x, name: "w[01:03]"'
    )
    assert [problem.path for problem in problems(text)] == [
        "spec.hosts[1].port",
        "spec.roleGroups.worker[1]",
        "spec.hosts[1].name",
    ]


def test_a_wrong_host_does_not_make_its_groups_wrong() -> None:
    text = HA.replace('{name: "w[01:03]", address', '{name: "W_[01:03]", address')
    assert [problem.path for problem in problems(text)] == ["spec.hosts[1].name"]
    missing = HA.replace('{name: "w[01:03]", address', "{adress")
    assert [problem.path for problem in problems(missing)] == ["spec.hosts[1].name", "spec.hosts[1].adress"]


def test_findings_keep_their_places_when_wrong_members_are_left_out() -> None:
    text = HA.replace('    - {name: "cp', '    - {name: 5}\n    - {name: "cp').replace(
        "10.0.0.[21:23]", "10.0.0.[11:13]"
    )
    found = {problem.path: problem for problem in problems(text)}
    assert "spec.hosts[0].name" in found
    assert found["spec.hosts[2].address"].line == 9
    assert "`w01` has the same address as `cp1`" in found["spec.hosts[2].address"].message


def test_a_misspelt_field_does_not_count_as_missing() -> None:
    assert [problem.path for problem in problems(MINIMAL.replace("name: demo", "nmae: demo"))] == ["metadata.nmae"]


def test_a_missing_section_names_what_to_write() -> None:
    found = problems("metadata: {name: demo}\nspec: {}\n")
    assert [problem.path for problem in found] == ["spec.hosts", "spec.roleGroups"]
    assert (
        only(
            "metadata: {}\nspec: {hosts: [], roleGroups: {}}\n".replace(
                "hosts: []", "hosts: [{name: a, address: b}]"
            ).replace("roleGroups: {}", "roleGroups: {etcd: [a], controlPlane: [a], worker: [a]}")
        ).path
        == "metadata.name"
    )


def test_the_error_is_a_config_error_that_holds_every_problem() -> None:
    with pytest.raises(ConfigError) as caught:
        config.loads(spec("foo: 1\nbar: 2\n"), name="x.yaml")
    assert isinstance(caught.value, config.ConfigErrors)
    assert [problem.path for problem in caught.value.problems] == ["spec.foo", "spec.bar"]
    assert str(caught.value).endswith("x.yaml: 2 problems")
    assert caught.value.problems[0].as_json()["line"] == 13


@pytest.mark.parametrize(
    ("mode", "warned"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True), (0o644, True)]
)
def test_a_literal_secret_that_others_can_read_is_doubtful(file: Path, mode: int, warned: bool) -> None:
    file.write_text(spec("global:\n  sudoPassword: hunter2-literal\n  password: env:PW\n"))
    file.chmod(mode)
    found = config.load(file).warnings
    assert [problem.path for problem in found] == (["spec.global.sudoPassword"] if warned else [])
    assert all("hunter2" not in problem.render() for problem in found)
    assert not warned or "chmod 600" in found[0].hint


def test_literals_in_hosts_bastions_and_registries_are_found(file: Path) -> None:
    registry = "registry: {auths: {docker.io: {username: a, password: lit}}}"
    file.write_text(spec("global: {bastion: [{address: b, password: lit}]}\n" + registry))
    file.chmod(0o644)
    assert [problem.path for problem in config.load(file).warnings] == [
        "spec.global.bastion[0].password",
        'spec.registry.auths["docker.io"].password',
    ]


def test_references_are_no_secret_to_hide(file: Path) -> None:
    file.write_text(spec("global: {password: env:PW, sudoPassword: prompt, privateKey: file:./key}"))
    file.chmod(0o644)
    assert config.load(file).warnings == ()


def test_a_long_line_is_shown_around_the_place() -> None:
    names = ", ".join(f"package-{number}" for number in range(60))
    rendered = only(spec(f"system: {{packages: [{names}, 'not a package', {names}]}}")).render()
    assert "not a package" in rendered
    assert max(map(len, rendered.splitlines())) < 140
    line, caret = rendered.splitlines()[1:3]
    assert line[caret.index("^") :].startswith("'not a package'")


def test_a_large_file_is_read_too() -> None:
    hosts = "".join(f"    - {{name: h{n}, address: 10.{n >> 8}.{n & 255}.1}}\n" for n in range(200))
    groups = '{etcd: [h0], controlPlane: [h0], worker: ["h[1:199]"]}'
    text = f"metadata: {{name: big}}\nspec:\n  hosts:\n{hosts}  roleGroups: {groups}\n"
    assert len(config.loads(text).cluster.role("worker")) == 199


def test_relative_paths_start_at_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "cluster.yaml").write_text(HA)
    monkeypatch.chdir(tmp_path)
    source = config.load("sub/cluster.yaml").source
    assert source.name == "sub/cluster.yaml"
    assert source.directory == tmp_path / "sub"
    monkeypatch.setenv("HOME", os.fspath(tmp_path))
    assert config.local_path("~/key", source.directory) == tmp_path / "key"
    assert config.local_path("key", source.directory) == tmp_path / "sub" / "key"
    assert config.local_path("/key", source.directory) == Path("/key")


@pytest.mark.parametrize("secret", ["x", "ab", "root", "demo", "cp1", "ops"])
def test_secrets_that_cannot_be_masked_are_warned_of(secret: str) -> None:
    """Too short, an ordinary word, or a name that stands in all output."""
    found = only(spec(f"global: {{user: ops, sudoPassword: {secret}}}"))
    assert found.severity == "warning"
    assert found.path == "spec.global.sudoPassword"
    assert "cannot be masked" in found.message
    assert secret not in found.excerpt.partition("sudoPassword")[2]
    assert problems(spec("global: {user: ops, sudoPassword: correct horse}")) == ()


@pytest.mark.parametrize("key", ["hosts", "roleGroups"])
def test_a_key_with_nothing_behind_it_is_reported_at_its_line(key: str) -> None:
    written = {
        "hosts": "[{name: n1, address: 10.0.0.1}]",
        "roleGroups": "{etcd: [n1], controlPlane: [n1], worker: [n1]}",
    }
    lines = ["metadata: {name: demo}", "spec:"]
    lines += [f"  {name}:" if name == key else f"  {name}: {text}" for name, text in written.items()]
    lines += ["", "  preflight: {minCPU: 1}"]
    found = next(problem for problem in problems("\n".join(lines)) if problem.path == f"spec.{key}")
    assert (found.message, lines[found.line - 1]) == ("there is no value", f"  {key}:")


def test_an_empty_spec_is_reported_at_its_line() -> None:
    found = only("metadata: {name: demo}\nspec:\n\n\n# the end\nkind: Cluster\n")
    assert (found.path, found.line) == ("spec", 2)


@pytest.mark.parametrize(
    ("line", "path", "message"),
    [
        ("network: {podCIDR: 127.0.0.0/16}", "spec.network.podCIDR", "overlaps 127.0.0.0/8"),
        ("network: {podCIDR: 224.0.0.0/16}", "spec.network.podCIDR", "overlaps 224.0.0.0/4"),
        ("network: {serviceCIDR: 169.254.0.0/16}", "spec.network.serviceCIDR", "link-local"),
        ("network: {podCIDR: 10.244.0.0/255.255.0.0}", "spec.network.podCIDR", "not a network in CIDR form"),
        ("preflight: {skip: [nope]}", "spec.preflight.skip[0]", "there is no check `nope`"),
        ("preflight: {minCPU: !!int abc}", "spec.preflight.minCPU", "not what its tag `!!int` says"),
        ("preflight: {minCPU: !!bool maybe}", "spec.preflight.minCPU", "not what its tag `!!bool` says"),
        ("etcd: {backup: {schedule: 0 3 30 2 *}}", "spec.etcd.backup.schedule", "never comes"),
        ("etcd: {backup: {schedule: '0 3 31 4,6-11/5 *'}}", "spec.etcd.backup.schedule", "never comes"),
        ("global: {connectionTimeout: \u0663s}", "spec.global.connectionTimeout", "is not a duration"),
        ("preflight: {minMemory: " + "9" * 5000 + "Ti}", "spec.preflight.minMemory", "more than any machine has"),
        ("preflight: {minCPU: " + "9" * 100 + "}", "spec.preflight.minCPU", "must be at most 2147483647"),
        (r'kubernetes: {apiServer: {extraArgs: {v: "a\nb"}}}', "spec.kubernetes.apiServer.extraArgs", "line break"),
        (r'kubernetes: {apiServer: {extraArgs: {v: "a\0b"}}}', "spec.kubernetes.apiServer.extraArgs", "control char"),
        (r'global: {sudoPassword: "file:a\0b"}', "spec.global.sudoPassword", "`file:` needs a path"),
        ("dns: {coredns: {upstream: [255.255.255.255]}}", "spec.dns.coredns.upstream[0]", "cannot be the address"),
    ],
)
def test_values_that_look_right_and_are_not(line: str, path: str, message: str) -> None:
    found = only(spec(line))
    assert (found.path, found.severity) == (path, "error")
    assert message in found.message


@pytest.mark.parametrize("schedule", ["0 3 29 2 *", "0 3 30 2 1", "0 3 31 */2 *", "0 3 30-31 2,3 *", "", "5 4 * 2 *"])
def test_schedules_that_do_come_are_accepted(schedule: str) -> None:
    assert problems(spec(f"etcd: {{backup: {{schedule: '{schedule}'}}}}")) == ()


@pytest.mark.parametrize("address", ["255.255.255.255", "0.0.0.0", "224.0.0.1"])
def test_addresses_no_host_can_have(address: str) -> None:
    text = MINIMAL.replace("192.0.2.10", address)
    assert "cannot be the address of a host" in only(text).message


def test_digits_of_other_scripts_are_no_range() -> None:
    text = MINIMAL.replace("name: node1", "name: 'node[\u0661:\u0663]'")
    assert any("has a range that cannot be read" in problem.message for problem in problems(text))


def test_an_address_in_brackets_is_not_taken_for_a_range() -> None:
    found = only(MINIMAL.replace("192.0.2.10", "'[fd00::1]'"))
    assert (found.message, found.hint) == ("`[fd00::1]` is not an address", "did you mean `fd00::1`?")


@pytest.mark.parametrize(
    ("net", "hint"),
    [
        ("10.244.0.0/32", "use a wider podCIDR, such as `10.244.0.0/16`"),
        ("32.0.0.0/4", "use a nodeMaskV4 from 8 to 20"),
        ("'fd00::/8'", "use a smaller podCIDR, such as `fd00:244::/56`"),
    ],
)
def test_the_hint_about_masks_can_be_followed(net: str, hint: str) -> None:
    found = problems(spec(f"network: {{podCIDR: {net}}}"))
    assert [problem.hint for problem in found if "does not fit" in problem.message] == [hint]
