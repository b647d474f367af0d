#!/usr/bin/env bash
# Build the image and run it with every restriction: it starts, translates without a network, and stops.
# As root, with podman:
#
#   deploy/try_image.sh RUN SOURCE TARGET [BASE]
#
# RUN is an exported model from SOURCE to TARGET (language codes). BASE is an image of Debian; without it, the
# base is made from Debian's packages (debootstrap), so that no registry of images is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
run=$(realpath "$1") source=$2 target=$3 base=${4:-}

# Old versions of crun refuse a machine with both versions of cgroups.
if mountpoint -q /sys/fs/cgroup/unified && [ -z "${TRY_IMAGE_INSIDE:-}" ]; then
  exec env TRY_IMAGE_INSIDE=1 unshare --mount bash -c 'umount /sys/fs/cgroup/unified && exec "$@"' - \
    "$PWD/deploy/try_image.sh" "$run" "$source" "$target" ${base:+"$base"}
fi

work=$(mktemp -d)
engine() { podman --root "$work/images" --runroot "$work/run" --cgroup-manager cgroupfs "$@"; }
clean() {
  engine rm --force --all > /dev/null 2>&1 || true
  engine rmi --force --all > /dev/null 2>&1 || true
  engine volume rm --force --all > /dev/null 2>&1 || true
  rm -rf "$work"
}
trap clean EXIT

if [ -z "$base" ]; then
  echo "== a base image from Debian's packages"
  base=localhost/debian:bookworm
  debootstrap --variant=minbase bookworm "$work/base" > "$work/debootstrap.log" \
    || { tail "$work/debootstrap.log"; exit 1; }
  rm -rf "$work"/base/var/cache/apt/archives/*.deb
  tar -C "$work/base" -c . | engine import -q - "$base" > /dev/null
  rm -rf "$work/base"
fi

echo "== the image"
# pip trusts the certificates that this machine trusts.
certificates=/etc/ssl/certs/ca-certificates.crt
printf '[global]\ncert = /run/certificates.pem\n' > "$work/pip.conf"
engine build --isolation chroot --format docker --build-arg BASE="$base" \
  --volume "$work/pip.conf:/etc/pip.conf:ro" --volume "$certificates:/run/certificates.pem:ro" \
  -f deploy/Containerfile -t dragoman . > "$work/build.log" 2>&1 || { tail -30 "$work/build.log"; exit 1; }
engine image inspect dragoman --format 'size {{.Size}}, user {{.User}}, health {{.HealthCheck.Test}}'

echo "== start"
limit=$(ulimit -Hn)
engine run --detach --name server --network none --cgroups disabled --read-only --read-only-tmpfs=false \
  --cap-drop all --security-opt no-new-privileges --tmpfs /tmp:size=256m,mode=1777 \
  --ulimit core=0:0 --ulimit nofile="$limit:$limit" --ulimit nproc=4096:4096 \
  --volume "$run:/models/run:ro" --volume state:/state \
  dragoman serve /models/run --host 0.0.0.0 --threads 1 --state /state --require-keys > /dev/null
inside() { engine exec server python3 -c "$1"; }
for _ in $(seq 60); do
  inside "import urllib.request as r; r.urlopen('http://127.0.0.1:5000/readyz', timeout=4)" 2> /dev/null && break
  [ "$(engine inspect server --format '{{.State.Running}}')" = true ] || { engine logs server; exit 1; }
  sleep 1
done
engine healthcheck run server && echo "healthy"

echo "== translate, with a key"
key=$(engine exec server dragoman keys add try --state /state 2> /dev/null)
inside "
import json, urllib.request
body = json.dumps({'q': 'one two', 'source': '$source', 'target': '$target', 'api_key': '$key'}).encode()
request = urllib.request.Request(
    'http://127.0.0.1:5000/translate', body, {'Content-Type': 'application/json'})
answer = json.load(urllib.request.urlopen(request, timeout=20))
assert isinstance(answer['translatedText'], str), answer
print(answer)
"

echo "== no rights"
inside "
import importlib.util, os, pathlib
status = pathlib.Path('/proc/1/status').read_text()
lines = dict(line.split(':\t', 1) for line in status.splitlines())
assert set(lines['Uid'].split()) == set(lines['Gid'].split()) == {'10001'}, lines
assert {int(lines[name], 16) for name in lines if name.startswith('Cap')} == {0}, lines
assert lines['NoNewPrivs'] == '1'
writable = []
for folder, folders, _ in os.walk('/'):
    folders[:] = [name for name in folders if os.path.join(folder, name) not in ('/proc', '/dev', '/sys')]
    try:
        pathlib.Path(folder, 'x').touch()
    except OSError:
        continue
    writable.append(folder)
assert writable and all((folder + '/').startswith(('/tmp/', '/state/')) for folder in writable), writable
marked = [path for path in pathlib.Path('/usr').rglob('*') if path.is_file() and path.stat().st_mode & 0o6000]
assert not marked, marked
assert not importlib.util.find_spec('torch') and not importlib.util.find_spec('pip')
print('user 10001, no capabilities, writable:', writable)
"

echo "== stop"
engine stop --time 45 server > /dev/null
code=$(engine inspect server --format '{{.State.ExitCode}}')
echo "exit code $code"
[ "$code" = 0 ]
