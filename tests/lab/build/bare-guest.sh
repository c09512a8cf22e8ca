#!/bin/sh
# bare-guest.sh ROOT BUSYBOX: make an unpacked, unconfigured Debian tree into a guest that runs /run/job/start.
set -eu
root=$1
cp "$2" "$root/usr/bin/busybox"
for name in $(/bin/busybox --list); do
  [ -e "$root/usr/bin/$name" ] || [ -e "$root/usr/sbin/$name" ] || ln -s busybox "$root/usr/bin/$name"
done
mkdir -p "$root"/proc "$root"/sys "$root"/run "$root"/tmp "$root"/root "$root"/dev "$root"/mnt
echo 'root:x:0:0:root:/root:/bin/sh' > "$root/etc/passwd"
echo 'root:x:0:' > "$root/etc/group"
cat > "$root/init" <<'INIT'
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
exec < /dev/console > /dev/console 2>&1
while read -r module; do insmod "$module"; done < /early-modules
mv /job /run/job
sh /run/job/start
exec python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)' # LINUX_REBOOT_CMD_POWER_OFF
INIT
chmod 755 "$root/init"
