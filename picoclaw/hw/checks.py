"""Checksums that parts protect their answers with."""


def crc8(data: bytes, polynomial: int = 0x31, initial: int = 0xFF) -> int:
    """CRC-8, most significant bit first, not reflected; the defaults are Sensirion's (SHT3x datasheet, section 4.12).

    SMBus' packet error code is polynomial 0x07 from 0 (SMBus 3.2, section 6.4.1.3).
    """
    crc = initial
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ polynomial) & 0xFF if crc & 0x80 else crc << 1
    return crc


def crc8_onewire(data: bytes) -> int:
    """CRC-8 of 1-Wire parts: polynomial 0x31, least significant bit first, from 0 (Maxim application note 27)."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x8C if crc & 1 else crc >> 1
    return crc
