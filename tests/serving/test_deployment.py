"""The files of `deploy/`: the programs that they are for, and validators of their formats."""

import json
import re
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

import compose_spec
import kubernetes_validate
import pytest
import typer.main
import yaml

import dragoman
from dragoman.cli.app import app
from dragoman.serving.metrics import Metrics

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart"
USER = 10001

MODELS = {"volume": {"persistentVolumeClaim": {"claimName": "models", "readOnly": True}}}
VALUES = {
    "defaults": {},
    "cpu only": {"autoscaling": {"queueTokens": 0}},
    "fixed": {"autoscaling": {"enabled": False}, "replicas": 5},
    "state": {"state": {"enabled": True}, "requireKeys": True},
    "own claim": {"state": {"enabled": True, "existingClaim": "ours", "storageClass": "fast"}},
    "everything": {
        "models": {"runs": ["en-de", "de/en"]},
        "image": {"repository": "registry.example/dragoman", "tag": "1"},
        "imagePullSecrets": [{"name": "pull"}],
        "options": ["--origin=https://example.org", "--public-url=https://example.org"],
        "service": {"type": "LoadBalancer", "port": 8080},
        "metrics": {"serviceMonitor": True, "port": 9200},
        "networkPolicy": {"egress": [{"ports": [{"protocol": "TCP", "port": 4318}]}]},
        "podAnnotations": {"a": "b"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
    },
}


def helm(*arguments, values):
    """Run helm with values from standard input."""
    text = json.dumps({**values, "models": {**MODELS, **values.get("models", {})}})
    return subprocess.run(
        ["helm", *arguments, "--values", "-"], input=text, capture_output=True, text=True
    )


@cache
def manifests(name):
    """The manifests that helm renders for one set of values."""
    ended = helm("template", "prod", str(CHART), values=VALUES[name])
    assert ended.returncode == 0, ended.stderr
    return [manifest for manifest in yaml.safe_load_all(ended.stdout) if manifest]


def manifest(name, kind):
    """The first manifest of a kind, or None."""
    return next((item for item in manifests(name) if item["kind"] == kind), None)


def pod(name):
    """The specification of the pod."""
    return manifest(name, "Deployment")["spec"]["template"]["spec"]


def server(name):
    """The specification of the only container."""
    (container,) = pod(name)["containers"]
    return container


def option(arguments, name):
    """The value of an option `--name=value` or `--name value`."""
    joined = [item.removeprefix(f"{name}=") for item in arguments if item.startswith(f"{name}=")]
    return joined[0] if joined else arguments[arguments.index(name) + 1]


# Kubernetes


def test_helm_finds_nothing_to_criticize():
    ended = helm("lint", "--strict", str(CHART), values={})
    assert ended.returncode == 0, ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.25", kubernetes_validate.latest_version()])
@pytest.mark.parametrize("name", VALUES)
def test_manifests_fit_the_schemas_of_kubernetes(name, version):
    for item in manifests(name):
        # A kind of the Prometheus operator; Kubernetes has no schema for it.
        if item["kind"] != "ServiceMonitor":
            kubernetes_validate.validate(item, version, strict=True)


def test_the_schemas_refuse_what_is_wrong():
    for change in ({"replica": 1}, {"replicas": "two"}):
        wrong = json.loads(json.dumps(manifest("fixed", "Deployment")))
        wrong["spec"] |= change
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, "1.25", strict=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"models": {"volume": {}}}, "models.volume is empty"),
        ({"requireKeys": True}, "requireKeys needs state.enabled=true"),
        ({"replica": 1}, "replica"),
        ({"models": {"runs": ["../secrets"]}}, "models.runs"),
        ({"models": {"runs": []}}, "models.runs"),
    ],
)
def test_helm_refuses_wrong_values(values, message):
    ended = helm("template", "prod", str(CHART), values=values)
    assert ended.returncode != 0
    assert message in ended.stderr


@pytest.mark.parametrize("name", VALUES)
def test_names_and_selectors_refer_to_what_exists(name):
    deployment = manifest(name, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels
    ports = {port["name"] for port in server(name)["ports"]}
    services = [item for item in manifests(name) if item["kind"] == "Service"]
    for service in services:
        assert service["spec"]["selector"].items() <= labels
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert server(name)[probe]["httpGet"]["port"] in ports
    policy = manifest(name, "NetworkPolicy")["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= labels
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == ports
    volumes = {volume["name"] for volume in pod(name)["volumes"]}
    assert {mount["name"] for mount in server(name)["volumeMounts"]} == volumes
    if budget := manifest(name, "PodDisruptionBudget"):
        assert budget["spec"]["selector"]["matchLabels"].items() <= labels
    if scaler := manifest(name, "HorizontalPodAutoscaler"):
        assert scaler["spec"]["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    if claim := manifest(name, "PersistentVolumeClaim"):
        (state,) = (volume for volume in pod(name)["volumes"] if volume["name"] == "state")
        assert state["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    if monitor := manifest(name, "ServiceMonitor"):
        chosen = monitor["spec"]["selector"]["matchLabels"].items()
        (service,) = (item for item in services if chosen <= item["metadata"]["labels"].items())
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}


@pytest.mark.parametrize("name", VALUES)
def test_the_pod_has_no_rights(name):
    """The profile `restricted` of Kubernetes, a read-only root, and no token of the cluster."""
    of_pod, of_container = pod(name)["securityContext"], server(name)["securityContext"]
    assert of_pod["runAsNonRoot"]
    assert of_pod["runAsUser"] == of_pod["fsGroup"] == USER
    assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert of_container["readOnlyRootFilesystem"]
    assert not of_container["allowPrivilegeEscalation"]
    assert of_container["capabilities"] == {"drop": ["ALL"]}
    assert not pod(name)["automountServiceAccountToken"]
    (models,) = (item for item in server(name)["volumeMounts"] if item["name"] == "models")
    assert models["readOnly"]


def test_nothing_may_leave_unless_it_is_listed():
    policy = manifest("defaults", "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == []
    assert manifest("everything", "NetworkPolicy")["spec"]["egress"]


@pytest.mark.parametrize("name", ["state", "own claim"])
def test_state_means_one_replica(name):
    specification = manifest(name, "Deployment")["spec"]
    assert specification["replicas"] == 1
    assert specification["strategy"] == {"type": "Recreate"}
    assert not manifest(name, "HorizontalPodAutoscaler")
    assert not manifest(name, "PodDisruptionBudget")
    claim = manifest(name, "PersistentVolumeClaim")
    assert (claim is None) == (name == "own claim")


def test_the_number_of_replicas_follows_the_queue_and_else_the_processors():
    def types(name):
        metrics = manifest(name, "HorizontalPodAutoscaler")["spec"]["metrics"]
        return [metric["type"] for metric in metrics]

    assert types("defaults") == ["Pods", "Resource"]
    assert types("cpu only") == ["Resource"]
    # A fixed number here would undo each change of the autoscaler at the next upgrade.
    assert "replicas" not in manifest("defaults", "Deployment")["spec"]
    assert manifest("fixed", "Deployment")["spec"]["replicas"] == 5


def test_the_chart_has_the_version_of_the_package():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == dragoman.__version__


# Containers


def compose_file():
    """The text of the file, with the folder of the runs."""
    text = (DEPLOY / "compose.yaml").read_text()
    changed, count = re.subn(r"\$\{MODELS:\?[^}]*\}", "/srv/models", text)
    assert count == 1
    return changed


def test_the_compose_file_is_valid_and_gives_no_rights():
    compose_spec.PyCompose.from_yaml(compose_file()).validate()
    with pytest.raises(ValueError, match="read_onli"):
        compose_spec.PyCompose.from_yaml(compose_file().replace("read_only", "read_onli"))
    service = yaml.safe_load(compose_file())["services"]["server"]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "/srv/models:/models:ro" in service["volumes"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def instructions():
    """The instructions of the Containerfile, each on one line."""
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_the_image_runs_as_a_user_and_checks_its_health():
    # What stands after the last FROM is in the image.
    last = max(index for index, line in enumerate(instructions()) if line.startswith("FROM"))
    final = instructions()[last:]
    assert f"USER {USER}:{USER}" in final
    assert any(line.startswith("HEALTHCHECK") and "/healthz" in line for line in final)
    assert not any("pip install" in line for line in final)


def test_what_the_image_copies_exists_and_is_not_ignored():
    listed = (DEPLOY / "Containerfile.dockerignore").read_text().split()
    copied = [
        source
        for line in instructions()
        if line.startswith("COPY") and "--from" not in line
        for source in line.split()[1:-1]
    ]
    assert copied
    for source in copied:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in listed, source


# systemd


def unit():
    """The command and the settings of the unit."""
    lines = (DEPLOY / "dragoman.service").read_text().splitlines()
    pairs = [line.partition("=") for line in lines if "=" in line and not line.startswith("#")]
    settings = {name: value for name, _, value in pairs}
    return shlex.split(settings["ExecStart"]), settings


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit_and_finds_it_safe(tmp_path):
    units = tmp_path / "etc" / "systemd" / "system"
    units.mkdir(parents=True)
    shutil.copy(DEPLOY / "dragoman.service", units)
    for target in ("multi-user", "network", "sysinit", "basic", "shutdown"):
        (units / f"{target}.target").write_text(f"[Unit]\nDescription={target}\n")
    (units / "system.slice").write_text("[Unit]\nDescription=slice\n")
    for program in (unit()[0][0], "/bin/kill"):
        path = tmp_path / program.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)

    def analyze(*arguments):
        return subprocess.run(
            ["systemd-analyze", *arguments, f"--root={tmp_path}", "dragoman.service"],
            capture_output=True,
            text=True,
        )

    checked = analyze("verify", "--man=no")
    assert (checked.returncode, checked.stderr) == (0, "")
    # The exposure is 0 to 100; a unit without restrictions has 96.
    rated = analyze("security", "--offline=true", "--no-pager", "--threshold=15")
    assert rated.returncode == 0, rated.stdout[-300:]
    broken = (DEPLOY / "dragoman.service").read_text().replace("UMask=0077", "UMask=rwx")
    (units / "dragoman.service").write_text(broken)
    assert "Failed to parse mode value" in analyze("verify", "--man=no").stderr


def test_each_manager_waits_longer_than_the_server():
    service = yaml.safe_load(compose_file())["services"]["server"]
    command, settings = unit()
    waits = [
        (
            int(service["stop_grace_period"].removesuffix("s")),
            option(service["command"], "--grace"),
        ),
        (int(settings["TimeoutStopSec"]), option(command, "--grace")),
        (pod("state")["terminationGracePeriodSeconds"], option(server("state")["args"], "--grace")),
    ]
    for seconds, grace in waits:
        assert seconds >= int(grace) + 10


# Prometheus


@cache
def metric_names():
    """The names of all series that the server writes."""
    return {sample.name for family in Metrics().registry.collect() for sample in family.samples}


NAME = re.compile(r"\bdragoman_[a-z_]+")


@pytest.mark.parametrize(
    "path",
    [
        "deploy/alerts.yaml",
        "deploy/prometheus-adapter.yaml",
        "deploy/chart/templates/hpa.yaml",
        "docs/operate.md",
    ],
)
def test_the_metrics_that_are_named_exist(path):
    names = set(NAME.findall((ROOT / path).read_text(encoding="utf-8")))
    # Of a histogram, the page names the family.
    families = {name.removesuffix("_count") for name in metric_names()}
    assert names
    assert names <= metric_names() | families


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed")
def test_prometheus_accepts_the_alerts():
    ended = subprocess.run(
        ["promtool", "check", "rules", str(DEPLOY / "alerts.yaml")], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert "7 rules" in ended.stdout


# Commands


def written_commands(path):
    """The arguments of the commands that a file shows, each on a line of its own."""
    text = (ROOT / path).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^(?:# +)?(?:kubectl .* -- )?dragoman (.+)$", text, re.MULTILINE)
    assert lines, path
    return map(shlex.split, lines)


def all_commands():
    """The arguments of `dragoman` in every file."""
    yield from (server(name)["args"] for name in VALUES)
    yield yaml.safe_load(compose_file())["services"]["server"]["command"]
    yield unit()[0][1:]
    for path in ("docs/operate.md", "deploy/nginx.conf", "deploy/chart/values.yaml"):
        yield from written_commands(path)


def parse(arguments):
    """Parse arguments as the command does, and run nothing."""
    command = typer.main.get_command(app)
    rest = list(arguments)
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    return command.make_context(command.name, rest).params


def test_every_command_line_is_understood():
    hosts = {parse(arguments).get("host") for arguments in all_commands()}
    assert hosts == {"0.0.0.0", "127.0.0.1", None}
    with pytest.raises(Exception, match="metric-port"):
        parse(["serve", "run", "--metric-port", "1"])
