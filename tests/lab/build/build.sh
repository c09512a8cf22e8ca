#!/usr/bin/env bash
# build.sh OUT [x86] [rpi3]: kernel, first stage and root image of each guest, from Debian's own packages.
#
# Needs root, apt and the network. Nothing is written to /etc/apt: a private view of the archive adds
# bookworm-backports (for QEMU 10, whose Raspberry Pi has I2C and SPI) and the arm64 packages.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")

# All that is mounted and started below is in namespaces of its own, so that nothing of it can outlive this command,
# and no clean-up can reach through a forgotten mount into the machine.
if [ -z "${LAB_WORK:-}" ]; then
  roomy=/var/tmp # memory is ten times faster for unpacking thousands of files: take it where there is plenty
  [ "$(df --output=avail -k /dev/shm | tail -1)" -gt 4000000 ] && roomy=/dev/shm
  LAB_WORK=$(mktemp -d -p "$roomy" picoclaw-lab.XXXXXX)
  export LAB_WORK
  trap 'rm -rf --one-file-system "$LAB_WORK"' EXIT
  unshare --mount --pid --fork --kill-child --mount-proc "$0" "$@"
  exit
fi

work=$LAB_WORK
out=$(readlink -m "$1")
shift
guests=${*:-x86 rpi3}
python=${PYTHON:-python3}
kernel_sources=$here/../kernel
export DEBIAN_FRONTEND=noninteractive TMPDIR=$work

say() { echo "lab: build: $SECONDS s: $*"; }

give_up() { # where this machine cannot build at all; `run` takes the status and the line as a reason to skip
  echo "lab: skipped: $*"
  exit 75
}

# --- the archive ------------------------------------------------------------------------------------------------------

mirror_of() { # mirror_of END DEFAULT: the address that this machine's own apt uses; it knows none before its first update
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 "$1/*$" || echo "$2"
}

archive() { # archive NAME ADDRESS SUITES
  cat > "$work/sources/$1.sources" <<SOURCE
Types: deb
URIs: $2
Suites: $3
Components: main
Architectures: amd64 arm64
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCE
}

mkdir -p "$work"/{sources,lists/partial,cache/archives/partial,packages} "$out"
mirror=$(mirror_of /debian http://deb.debian.org/debian)
archive main "$mirror" "bookworm bookworm-updates bookworm-backports"
archive security "$(mirror_of security http://deb.debian.org/debian-security)" bookworm-security
: > "$work/preferences"
view=(
  -qq -o "Dir::Etc::sourceparts=$work/sources" -o Dir::Etc::sourcelist=/dev/null
  -o "Dir::Etc::preferences=$work/preferences" -o Dir::Etc::preferencesparts=/dev/null
  -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache"
  -o APT::Architectures=amd64,arm64 -o APT::Sandbox::User=root -o DPkg::Lock::Timeout=120
)

install_tools() {
  apt-get "${view[@]}" install -y --no-install-recommends \
    mmdebstrap arch-test kmod cpio e2fsprogs busybox-static xz-utils make gcc-12 libelf1 device-tree-compiler \
    > /dev/null &&
    apt-get "${view[@]}" install -y --no-install-recommends -t bookworm-backports \
      qemu-system-x86 qemu-system-arm qemu-system-data qemu-utils seabios ipxe-qemu > /dev/null
}

unpack() { # unpack FOLDER PACKAGE...: fetch packages and unpack them without installing
  local folder=$1 fetched
  shift
  fetched=$(mktemp -d -p "$work/packages")
  (cd "$fetched" && apt-get "${view[@]}" download "$@")
  for package in "$fetched"/*.deb; do dpkg -x "$package" "$folder"; done
  rm -r "$fetched"
}

kernel_of() { # kernel_of META-PACKAGE: the package that a meta package stands for now
  apt-cache "${view[@]}" depends "$1" 2> /dev/null | sed -n 's/.*Depends: \(linux-image-[0-9][^: ]*\).*/\1/p' | head -1
}

# --- what both guests have --------------------------------------------------------------------------------------------

python_packages() { # python_packages ROOT PLATFORM [PACKAGE...]: what the tests in the guest import, wheels only
  local root=$1/usr/local/lib/python3.11/dist-packages wheels further=("${@:3}")
  wheels=$(mktemp -d -p "$work")
  "$python" -m pip download --quiet --disable-pip-version-check --only-binary :all: --no-deps \
    --platform "$2" --platform any --python-version 3.11 --dest "$wheels" \
    'gpiod>=2.3' 'pyserial>=3.5' 'smbus2>=0.5,<1' 'pytest>=8.3,<10' pluggy iniconfig packaging pygments \
    "${further[@]}" ||
    give_up "the Python packages for the guests cannot be fetched"
  mkdir -p "$root"
  for wheel in "$wheels"/*.whl; do "$python" -m zipfile -e "$wheel" "$root"; done
  # An emulated processor would spend seconds on compiling; the bytes are the same for all of 3.11.
  if [ "$("$python" -c 'import sys; print(sys.version_info[:2])')" = "(3, 11)" ]; then
    "$python" -m compileall -q -s "$1" "$root" "$1/usr/lib/python3.11" "$1/usr/lib/python3" > /dev/null || true
  fi
}

# --- x86: systemd, a kernel module that hands I2C and SPI to Python, and drivers that Debian leaves out ---------------

build_x86() {
  local image_package version root=$work/root-x86 kernel=$work/kernel-x86 modules=$work/modules
  image_package=$(kernel_of linux-image-amd64/bookworm-security)
  [ -n "$image_package" ] || image_package=$(kernel_of linux-image-amd64/bookworm)
  version=${image_package#linux-image-}
  unpack "$kernel" "$image_package"
  mmdebstrap --quiet --variant=minbase --dpkgopt=force-unsafe-io \
    --include=systemd,systemd-sysv,udev,dbus,kmod,python3,python3-spidev,bubblewrap bookworm "$root" "$mirror" &
  local rooting=$!
  build_modules "$version" "$modules"
  say "x86: modules built: $(cd "$modules" && find . -name '*.ko' | wc -l)"
  wait "$rooting"
  sh "$here/systemd-guest.sh" "$root"
  # This guest also runs the daemon, with a model that a test plays.
  python_packages "$root" manylinux_2_28_x86_64 'apsw>=3.46' 'cronsim>=2.6,<3' 'python-frontmatter>=1.1,<2' PyYAML \
    'httpx>=0.27,<1' httpcore h11 anyio sniffio idna certifi typing_extensions
  find "$modules" -name '*.ko' -exec install -D -t "$root/lib/modules/$version/updates" {} +
  "$python" "$here/modules.py" "$kernel" "$root" "$here/x86.modules"
  first_stage "$root" "$out/x86.initrd"
  cp "$kernel"/boot/vmlinuz-* "$out/x86.kernel"
  mke2fs -q -F -t ext4 -d "$root" "$out/x86.img" 900M
  say "x86: ready, kernel $version"
}

build_modules() { # build_modules VERSION FOLDER: our own module, and those of kernel/drivers.list from Debian's source
  local version=$1 folder=$2 headers=$work/headers source=$work/source
  unpack "$headers" "linux-headers-$version" "linux-headers-${version%-amd64}-common" linux-kbuild-6.1
  sed -i "s#/usr/src/#$headers/usr/src/#" "$headers/usr/src/linux-headers-$version/Makefile"
  unpack "$source" linux-source-6.1
  mkdir -p "$folder"
  tar -xJf "$source"/usr/src/linux-source-6.1.tar.xz -C "$folder" --strip-components=1 \
    $(sed -n 's#^[^\#].*#linux-source-6.1/&#p' "$kernel_sources/drivers.list")
  cp "$kernel_sources"/{picosim.c,Kbuild} "$folder/"
  # The interrupt simulator is only ever built in: as a module it has to reach its handler through an exported call.
  sed -i 's/handle_simple_irq(irq_to_desc(\(.*\)));/generic_handle_irq(\1);/' "$folder/kernel/irq/irq_sim.c"
  echo 'MODULE_LICENSE("GPL");' >> "$folder/kernel/irq/irq_sim.c"
  # This driver can only be named in a device tree; the name is what new_device asks for.
  sed -i -e 's/^static struct i2c_driver /static const struct i2c_device_id names[] = { { "scd41" }, { } };\n&/' \
    -e 's/^\t\.probe\w* = /\t.id_table = names,\n&/' "$folder/drivers/iio/chemical/scd4x.c"
  make -s -C "$headers/usr/src/linux-headers-$version" M="$folder" modules -j2 > "$work/make.log" 2>&1 ||
    { tail -30 "$work/make.log"; exit 1; }
}

first_stage() { # first_stage ROOT FILE: initramfs with busybox, the modules that find the disk, and its init
  local tree
  tree=$(mktemp -d -p "$work")
  mkdir -p "$tree"/{bin,dev,proc,sys,root}
  cp /bin/busybox "$tree/bin/busybox"
  ln -s busybox "$tree/bin/sh"
  install -m755 "$here/first-stage" "$tree/init"
  cp "$1/early-modules" "$tree/"
  (cd "$1" && xargs -I{} cp --parents .{} "$tree" < early-modules)
  (cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) > "$2"
}

# --- rpi3: the controllers of a Raspberry Pi 3 ------------------------------------------------------------------------

build_rpi3() {
  local root=$work/root-rpi3 kernel=$work/kernel-rpi3 busybox=$work/busybox
  unpack "$kernel" "$(kernel_of linux-image-arm64:arm64/bookworm-backports)"
  unpack "$busybox" busybox-static:arm64
  busybox=$(find "$busybox" -path '*bin/busybox')
  # Packages are only unpacked, not configured, so that nothing of arm64 has to be run: seconds instead of minutes.
  mmdebstrap --quiet --arch=arm64 --variant=extract --dpkgopt=force-unsafe-io \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
    --include=base-files,python3,libpython3.11-stdlib,kmod bookworm "$root" "$mirror"
  rm -rf "$root"/usr/share/{doc,locale,man} "$root"/var/{cache,lib}/{apt,dpkg}
  sh "$here/bare-guest.sh" "$root" "$busybox"
  python_packages "$root" manylinux_2_28_aarch64
  "$python" "$here/modules.py" "$kernel" "$root" "$here/rpi3.modules"
  # All of it is unpacked into memory: QEMU's SD card is so slow that Python would take ten seconds to start.
  (cd "$root" && find . | cpio -o -H newc --quiet) > "$out/rpi3.initrd"
  dtc -q -@ -I dts -O dtb -o "$work/rpi3.dtbo" "$here/rpi3.dtso"
  fdtoverlay -i "$(find "$kernel" -name bcm2837-rpi-3-b.dtb)" -o "$out/rpi3.dtb" "$work/rpi3.dtbo"
  cp "$kernel"/boot/vmlinuz-* "$out/rpi3.kernel"
  say "rpi3: ready, kernel $(basename "$kernel"/boot/vmlinuz-* | sed s/vmlinuz-//)"
}

apt-get "${view[@]}" update -o APT::Update::Error-Mode=any || give_up "the Debian archive cannot be reached"
say "package lists"
install_tools || give_up "QEMU and the tools that make images cannot be installed"
say "$(qemu-system-x86_64 --version | head -1)"
pids=()
for guest in $guests; do
  "build_$guest" &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
exit $status
