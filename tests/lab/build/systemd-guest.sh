#!/bin/sh
# systemd-guest.sh ROOT: make a Debian tree into a guest that runs /run/job/start at boot and powers off.
set -eu
root=$1
units=$root/etc/systemd/system

cat > "$units/lab.service" <<'UNIT'
[Unit]
Description=Run the job of the lab
After=basic.target

[Service]
Type=oneshot
TimeoutStartSec=infinity
StandardInput=null
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
ExecStart=/bin/sh /run/job/start
ExecStopPost=/bin/systemctl poweroff --no-block

[Install]
WantedBy=multi-user.target
UNIT
mkdir -p "$units/multi-user.target.wants"
ln -sf ../lab.service "$units/multi-user.target.wants/lab.service"

# What only costs time in a machine that lives for half a minute.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
  fstrim.timer getty.target modprobe@dm_mod.service modprobe@drm.service modprobe@efi_pstore.service \
  serial-getty@ttyS0.service systemd-journal-flush.service systemd-machine-id-commit.service systemd-pstore.service \
  systemd-random-seed.service systemd-timesyncd.service systemd-update-utmp.service \
  systemd-update-utmp-runlevel.service; do
  ln -sf /dev/null "$units/$unit"
done
mkdir -p "$root/etc/systemd/journald.conf.d" "$root/etc/systemd/system.conf.d"
printf '[Journal]\nStorage=volatile\n' > "$root/etc/systemd/journald.conf.d/lab.conf"
printf '[Manager]\nDefaultTimeoutStopSec=10s\n' > "$root/etc/systemd/system.conf.d/lab.conf"

# Groups and rights of device files as Raspberry Pi OS has them.
for group in i2c spi gpio; do chroot "$root" groupadd --system "$group"; done
cat > "$root/etc/udev/rules.d/99-com.rules" <<'RULES'
SUBSYSTEM=="i2c-dev", GROUP="i2c", MODE="0660"
SUBSYSTEM=="spidev", GROUP="spi", MODE="0660"
SUBSYSTEM=="gpio", KERNEL=="gpiochip*", GROUP="gpio", MODE="0660"
RULES
echo lab > "$root/etc/hostname"
: > "$root/etc/fstab"
echo 0123456789abcdef0123456789abcdef > "$root/etc/machine-id"
