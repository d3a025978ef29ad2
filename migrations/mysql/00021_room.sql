-- +goose Up
-- The waiting room of a sale: entry_mode 2, whose settings are on the sale. Only metadata of seckill_vouchers changes.
ALTER TABLE seckill_vouchers
    ADD COLUMN entry_challenge TINYINT NOT NULL DEFAULT 0,
    ADD COLUMN entry_opens_at DATETIME(3) NULL,
    ADD COLUMN entry_rate INT NOT NULL DEFAULT 100,
    ADD COLUMN entry_paused TINYINT NOT NULL DEFAULT 0,
    ADD COLUMN entry_message VARCHAR(255) NOT NULL DEFAULT '';

-- One row per room. joined is the next free number; the row is locked while numbers are assigned. Seed and size are
-- fixed at the start: the numbers below size are the lobby, which the seed puts in order.
CREATE TABLE rooms (
    voucher_id BIGINT NOT NULL PRIMARY KEY,
    joined INT UNSIGNED NOT NULL DEFAULT 0,
    size INT UNSIGNED NOT NULL DEFAULT 0,
    seed BINARY(32) NULL,
    started_at DATETIME(3) NULL
) ENGINE = InnoDB;

-- One place per account.
CREATE TABLE room_places (
    voucher_id BIGINT NOT NULL,
    user_id BIGINT NOT NULL,
    number INT UNSIGNED NOT NULL,
    joined_at DATETIME(3) NOT NULL,
    PRIMARY KEY (voucher_id, user_id)
) ENGINE = InnoDB;

-- What happened in a room, in order. kind 1: the buyers with the numbers in data are admitted until expires_at;
-- kind 2: the buyers with the numbers in data left. present is how many buyers waited, absent ones not included.
CREATE TABLE room_log (
    voucher_id BIGINT NOT NULL,
    seq INT UNSIGNED NOT NULL,
    kind TINYINT NOT NULL,
    at DATETIME(3) NOT NULL,
    expires_at DATETIME(3) NULL,
    present INT UNSIGNED NOT NULL DEFAULT 0,
    data MEDIUMBLOB NOT NULL,
    PRIMARY KEY (voucher_id, seq)
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE room_log;
DROP TABLE room_places;
DROP TABLE rooms;
ALTER TABLE seckill_vouchers
    DROP COLUMN entry_challenge, DROP COLUMN entry_opens_at, DROP COLUMN entry_rate, DROP COLUMN entry_paused,
    DROP COLUMN entry_message;
