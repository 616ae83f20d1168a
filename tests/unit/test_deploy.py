# SPDX-License-Identifier: Apache-2.0
"""What configs/deploy ships: units that systemd takes and finds closed, settings that
the command line takes, manifests that name what there is."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.admission.target_rules import parse_rules
from ldapslam.cli.serve.serve import agent_command, coordinator_command

DEPLOY = Path(__file__).resolve().parents[2] / "configs" / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
CONTAINERFILE = DEPLOY.parents[1] / "Containerfile"
COMMANDS: dict[str, click.Command] = {
    "agent": agent_command,
    "coordinator": coordinator_command,
}
#: Of 10; what systemd calls OK ends at 2.
MOST_EXPOSED = 2.0

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


def parsed(command: str, arguments: list[str]) -> dict[str, Any]:
    """Values of the options, as the command would get them."""
    context = COMMANDS[command].make_context(command, arguments)
    return context.params


# -- systemd ---------------------------------------------------------------------------


def directives(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_there_are_units_and_a_user_for_the_services() -> None:
    assert [unit.stem for unit in UNITS] == ["ldapslam-agent", "ldapslam-coordinator"]
    text = (DEPLOY / "systemd" / "ldapslam.sysusers").read_text()
    assert re.search(r"^u ldapslam ", text, re.MULTILINE)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_its_command_with_the_settings_beside_it(unit: Path) -> None:
    (start,) = directives(unit)["ExecStart"]
    command = unit.stem.removeprefix("ldapslam-")
    assert start == f"/usr/bin/ldapslam {command} --config /etc/ldapslam/{command}.toml"
    assert (DEPLOY / f"{command}.toml").exists()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_runs_without_root_and_stops_in_time(unit: Path) -> None:
    found = directives(unit)
    assert found.get("DynamicUser") == ["yes"] or found["User"] == ["ldapslam"]
    assert found["CapabilityBoundingSet"] == found["AmbientCapabilities"] == [""]
    assert found["NoNewPrivileges"] == ["yes"]
    assert found["ProtectSystem"] == ["strict"]
    # its engines get no signal: it drains them
    assert found["KillMode"] == ["mixed"]
    assert int(found["TimeoutStopSec"][0]) >= 90
    # wrong options (exit code 2) do not become right by another start
    assert found["RestartPreventExitStatus"] == ["2"]


def systemd_analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False
    )


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_takes_the_unit_and_finds_it_closed(unit: Path, tmp_path: Path) -> None:
    # the command is not installed where the tests run
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/usr/bin/ldapslam", "/bin/true"))
    verified = systemd_analyze("verify", str(copy))
    of_ours = [line for line in verified.stderr.splitlines() if unit.name in line]
    assert (verified.returncode, of_ours) == (0, [])
    judged = systemd_analyze("security", "--offline=true", "--no-pager", str(copy))
    level = re.search(r"exposure level for \S+: ([\d.]+)", judged.stdout)
    assert level is not None, judged.stderr
    assert float(level[1]) <= MOST_EXPOSED
    # what docs/how-to/fleet.md says of it
    documented = (DEPLOY.parents[1] / "docs" / "how-to" / "fleet.md").read_text()
    assert level[1] in documented


# -- settings --------------------------------------------------------------------------


def test_the_agents_settings_are_taken() -> None:
    values = parsed("agent", ["--config", str(DEPLOY / "agent.toml")])
    assert values["coordinator"] == "coordinator.example.com:7400"
    assert values["labels"] == {"site": "a"}
    assert values["max_rate_per_s"] == 50_000
    assert values["spool_quota_bytes"] == 4 << 30
    rules = parse_rules(values["allow_target"])
    assert AgentLimits(targets=rules).targets[-1].host == "ds1.example.com"


def test_the_coordinators_settings_are_taken() -> None:
    values = parsed("coordinator", ["--config", str(DEPLOY / "coordinator.toml")])
    assert tuple(values["listen"]) == ("0.0.0.0:7400",)
    assert values["on_stop"] == "leave"


@pytest.mark.parametrize("name", ["agent.toml", "coordinator.toml"])
def test_settings_hold_no_secret(name: str) -> None:
    text = (DEPLOY / name).read_text()
    assert not re.search(r"(?i)password *=|(?<!allow-)secret|token *=", text)


# -- Kubernetes ------------------------------------------------------------------------

MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


def objects() -> list[dict[str, Any]]:
    return [
        content
        for path in MANIFESTS
        for content in yaml.safe_load_all(path.read_text())
        if content is not None
    ]


def test_manifests_have_what_every_object_has() -> None:
    kinds = [one["kind"] for one in objects()]
    assert sorted(kinds) == ["ConfigMap"] * 2 + ["Service"] * 2 + ["StatefulSet"] * 2
    for one in objects():
        assert one["apiVersion"] in ("v1", "apps/v1")
        assert one["metadata"]["name"].startswith("ldapslam-")


def sets() -> list[dict[str, Any]]:
    return [one for one in objects() if one["kind"] == "StatefulSet"]


@pytest.mark.parametrize("one", sets(), ids=lambda one: one["metadata"]["name"])
def test_pods_are_closed_and_refer_to_what_there_is(
    one: dict[str, Any], tmp_path: Path
) -> None:
    template = one["spec"]["template"]
    labels = template["metadata"]["labels"]
    assert one["spec"]["selector"]["matchLabels"] == labels
    services = {
        other["metadata"]["name"]: other["spec"]["selector"]
        for other in objects()
        if other["kind"] == "Service"
    }
    assert services[one["spec"]["serviceName"]] == labels

    pod = template["spec"]
    # not a name as it stands: nobody else's image can be pulled by it
    targets = re.findall(r"AS (agent|coordinator)$", CONTAINERFILE.read_text(), re.M)
    for each in (*pod.get("initContainers", ()), *pod["containers"]):
        place, name = each["image"].split("/")
        assert place == "REGISTRY"
        assert name in [f"ldapslam-{target}:VERSION" for target in targets]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["terminationGracePeriodSeconds"] >= 90
    (container,) = pod["containers"]
    security = container["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}

    claims = [one["metadata"]["name"] for one in one["spec"]["volumeClaimTemplates"]]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {*claims, *volumes}

    # the command line takes the arguments, with the settings of the config map
    settings = volumes["settings"]["configMap"]["name"]
    (content,) = (
        other["data"]
        for other in objects()
        if other["kind"] == "ConfigMap" and other["metadata"]["name"] == settings
    )
    ((name, text),) = content.items()
    (tmp_path / name).write_text(text)
    arguments = [
        argument.replace("/etc/ldapslam/" + name, str(tmp_path / name))
        for argument in container["args"]
    ]
    assert any(str(tmp_path) in argument for argument in arguments)
    parsed(arguments[0], arguments[1:])


# -- Ansible ---------------------------------------------------------------------------


def test_the_playbook_copies_what_there_is() -> None:
    folder = DEPLOY / "ansible"
    plays = yaml.safe_load((folder / "fleet.yaml").read_text())
    assert [play["hosts"] for play in plays] == ["fleet", "coordinator", "agents"]
    for play in plays:
        handlers = {handler["name"] for handler in play.get("handlers", ())}
        for task in play["tasks"]:
            modules = [key for key in task if key.startswith("ansible.builtin.")]
            assert len(modules) == 1, task["name"]
            assert task.get("notify") in {None, *handlers}
            source = task[modules[0]].get("src", "")
            if source.startswith(("../", "templates/")):
                assert (folder / source).exists(), source


def test_the_playbook_installs_a_bundle_and_nothing_by_its_name_alone() -> None:
    (first, *_) = yaml.safe_load((DEPLOY / "ansible" / "fleet.yaml").read_text())
    tasks = {task["name"]: task for task in first["tasks"]}
    packages = [
        task["ansible.builtin.package"]["name"]
        for task in tasks.values()
        if "ansible.builtin.package" in task
    ]
    assert packages == ["{{ ldapslam_python }}"]
    modules = {key for task in tasks.values() for key in task}
    assert "ansible.builtin.pip" not in modules
    assert "ldapslam_bundle" not in first["vars"]
    unpacked = tasks["Unpack the bundle"]["ansible.builtin.unarchive"]
    assert unpacked["src"] == "{{ ldapslam_bundle }}"
    installed = tasks["Install ldapslam"]["ansible.builtin.shell"]
    assert installed["cmd"].startswith("./install.sh ")
    assert (DEPLOY / "bundle" / "install.sh").stat().st_mode & 0o111


def test_the_inventory_has_the_playbooks_groups() -> None:
    inventory = configparser.ConfigParser(
        allow_no_value=True, delimiters=("\0",), comment_prefixes=(";",)
    )
    inventory.read_string((DEPLOY / "ansible" / "inventory.ini").read_text())
    assert {"coordinator", "agents", "fleet:children"} == set(inventory.sections())


def test_the_agents_template_gives_settings_that_are_taken(tmp_path: Path) -> None:
    text = (DEPLOY / "ansible" / "templates" / "agent.toml.j2").read_text()
    values = {
        r"groups\['coordinator'\]\[0\]": "c.example.com",
        "inventory_hostname": "load1",
        r"site \| default\('none'\)": "a",
        r"allow_targets \| default\(.*?\) \| to_json": '["10.0.0.0/8"]',
        r"allow_secrets \| default\(.*?\) \| to_json": '["env:A"]',
    }
    for pattern, value in values.items():
        text = re.sub(r"\{\{ " + pattern + r" \}\}", value, text)
    assert "{{" not in text
    path = tmp_path / "agent.toml"
    path.write_text(text)
    assert parsed("agent", ["--config", str(path)])["labels"] == {"site": "a"}


# -- images ----------------------------------------------------------------------------


def stages() -> dict[str, list[tuple[str, str]]]:
    """Stage of the Containerfile -> its instructions."""
    text = re.sub(r"^#.*\n|\\\n", "", CONTAINERFILE.read_text(), flags=re.M)
    found: dict[str, list[tuple[str, str]]] = {}
    for instruction, rest in re.findall(r"^([A-Z]+) +(.*)$", text, re.M):
        if instruction == "FROM":
            found[rest.split(" AS ")[1]] = []
        if found:
            next(reversed(found.values())).append((instruction, rest))
    return found


@pytest.mark.parametrize("name", ["agent", "coordinator"])
def test_an_image_starts_its_command_without_root(name: str, tmp_path: Path) -> None:
    own = dict(stages()[name])
    base = dict(stages()["base"])
    assert own["FROM"] == f"base AS {name}"
    assert base["USER"] == "65532:65532"  # of the manifests, too
    assert base["ENTRYPOINT"] == '["ldapslam"]'
    command, *arguments = yaml.safe_load(own["CMD"])
    assert (command, arguments[0]) == (name, "--config")
    settings = tmp_path / "settings.toml"
    settings.write_text((DEPLOY / f"{name}.toml").read_text())
    assert parsed(command, ["--config", str(settings)])


def test_an_image_has_what_the_bundle_is_made_of() -> None:
    copied = [
        rest
        for instructions in stages().values()
        for instruction, rest in instructions
        if instruction == "COPY" and "--from" not in rest
    ]
    assert copied == ["dist/ldapslam-*-python*.tar.gz /tmp/bundle/"]
    ignored = (CONTAINERFILE.parent / ".containerignore").read_text().split()
    assert ignored == ["*", "!" + copied[0].split()[0]]
    assert (
        "ldapslam fleet bundle -o dist"
        in (CONTAINERFILE.parent / "Makefile").read_text()
    )


# -- names -----------------------------------------------------------------------------


BY_NAME = re.compile(r"pip install\b.*[ '\"]ldapslam(?:[\[=<>'\" ]|$)", re.M)


def test_nobody_is_told_to_install_ldapslam_by_its_name() -> None:
    """Whoever registers the name on an index would be installed."""
    root = CONTAINERFILE.parent
    for folder in ("agent", "cli", "configs", "coordinator", "docs", "results"):
        for path in (root / folder).rglob("*"):
            if path.suffix not in (".pyc", ".png") and path.is_file():
                found = BY_NAME.search(path.read_text("utf-8", "replace"))
                assert found is None, f"{path}: {found[0]}"


def test_a_name_is_told_from_a_file() -> None:
    for text in ("ldapslam", "-q 'ldapslam[notify]'", "ldapslam==0.1.0"):
        assert BY_NAME.search(f"pip install {text}\n")
    for text in ("./ldapslam", "dist/ldapslam-0.1.0.whl", "--no-binary ldapslam,x ."):
        assert not BY_NAME.search(f"pip install {text}\n")
