#!/bin/sh
# Installs picoclaw into an environment of its own: no compiler, nothing of the system's Python is touched.
#
#   ./install.sh                 from this checkout, for this user: ~/.local/share/picoclaw, ~/.local/bin/picoclaw
#   sudo ./install.sh            for the machine: /opt/picoclaw, /usr/local/bin/picoclaw (what the service wants)
#   ./install.sh --from WHAT     from a wheel, a folder or a name for pip
#   ./install.sh --wheels DIR    take all packages from a folder, without a network
#   ./install.sh --prefix DIR --bin DIR   other places
#   ./install.sh --help          these lines
#
# Run again, it makes a new version beside the old one, as `picoclaw update` does; `picoclaw uninstall` removes it.
set -eu
umask 022

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

if [ "$(id -u)" = 0 ]; then
    prefix=/opt/picoclaw bin=/usr/local/bin
else
    prefix="$HOME/.local/share/picoclaw" bin="$HOME/.local/bin"
fi
source="$(cd "$(dirname "$0")" && pwd)"
wheels=
while [ $# -gt 0 ]; do
    case "$1" in
    -h | --help) sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p;}' "$0" && exit 0 ;;
    --from | --wheels | --prefix | --bin) ;;
    *) fail "unknown option $1; the options are --from, --wheels, --prefix, --bin and --help" ;;
    esac
    [ $# -ge 2 ] || fail "$1 needs a value; the options are --from, --wheels, --prefix and --bin"
    case "$1" in
    --from) source="$2" ;;
    --wheels) wheels="$2" ;;
    --prefix) prefix="$2" ;;
    --bin) bin="$2" ;;
    esac
    shift 2
done
if [ -e "$source" ]; then
    source="$(cd "$(dirname "$source")" && pwd)/$(basename "$source")"
fi

python="${PYTHON:-python3}"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    fail "it takes Python 3.11 or newer (Raspberry Pi OS 12 and 13 have it); PYTHON=/path/to/python3 names another"
"$python" -c 'import ensurepip, venv' 2>/dev/null || fail "Python's venv is missing: sudo apt install python3-venv"

mkdir -p "$prefix/versions" "$bin" || fail "$prefix or $bin cannot be made: use sudo, or --prefix and --bin"
prefix="$(cd "$prefix" && pwd)"
if [ -e "$bin/picoclaw" ] || [ -L "$bin/picoclaw" ]; then
    case "$(readlink "$bin/picoclaw")" in
    "$prefix"/*) ;;
    *) fail "$bin/picoclaw is there already and not of $prefix: move it away, or name another folder with --bin" ;;
    esac
fi
free=$(df -Pk "$prefix" | awk 'NR == 2 { print $4 }')
[ "$free" -ge 300000 ] || fail "$prefix: 300 MB free are needed, there are $((free / 1000))"

new="$(mktemp -d "$prefix/versions/v-XXXXXXXX")"
chmod 755 "$new"
trap 'rm -rf "$new"' EXIT
trap 'exit 1' HUP INT TERM
echo "installing $source into $new; on a small board this takes some minutes"
"$python" -m venv "$new"
# Wheels alone: where there is none for this board, pip says so, instead of looking for a compiler.
"$new/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --only-binary :all: \
    ${wheels:+--no-index --find-links "$wheels"} "$source" || fail "pip could not install it; nothing was changed"

# It has to answer, on this very processor, before it is used.
trial="$(mktemp -d "$prefix/trial-XXXXXXXX")"
trap 'rm -rf "$new" "$trial"' EXIT
PICOCLAW_HOME="$trial/home" "$new/bin/picoclaw" chat --board sim -m "how warm is it?" >/dev/null ||
    fail "the new version did not answer; nothing was changed"
rm -rf "$trial"

# What is the same as before does not become the version to go back to.
if [ -L "$prefix/current" ] &&
    ! diff -rq -x __pycache__ -x RECORD -x direct_url.json "$prefix/current/lib" "$new/lib" >/dev/null; then
    cp -P --remove-destination "$prefix/current" "$prefix/previous"
fi
ln -sfn "versions/$(basename "$new")" "$prefix/.current.new"
mv -T "$prefix/.current.new" "$prefix/current"
trap - EXIT
printf '%s\n' "$source" >"$prefix/source"
printf '%s\n' "$bin/picoclaw" >"$prefix/link"
ln -sfn "$prefix/current/bin/picoclaw" "$bin/picoclaw"
sync

echo "$("$bin/picoclaw" --version) is installed: $bin/picoclaw"
case ":$PATH:" in
*":$bin:"*) ;;
*) echo "$bin is not on your PATH yet: log in again, or type: export PATH=\"$bin:\$PATH\"" ;;
esac
# What the agent's commands are run within; without it they are refused.
if ! command -v bwrap >/dev/null; then
    [ "$(id -u)" != 0 ] || [ -n "$wheels" ] || ! command -v apt-get >/dev/null ||
        apt-get install --yes --quiet --no-install-recommends bubblewrap >/dev/null || true
    command -v bwrap >/dev/null || echo "the agent can run no commands before this is done: sudo apt install bubblewrap"
fi
echo "Next: picoclaw init, picoclaw chat; sudo picoclaw service install lets it start with the machine."
