-- +goose Up
-- The waiting room of a sale: entry_mode 2, whose settings are on the sale.
ALTER TABLE seckill_vouchers ADD COLUMN entry_challenge INTEGER NOT NULL DEFAULT 0;
ALTER TABLE seckill_vouchers ADD COLUMN entry_opens_at DATETIME NULL;
ALTER TABLE seckill_vouchers ADD COLUMN entry_rate INTEGER NOT NULL DEFAULT 100;
ALTER TABLE seckill_vouchers ADD COLUMN entry_paused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE seckill_vouchers ADD COLUMN entry_message TEXT NOT NULL DEFAULT '';

-- One row per room. joined is the next free number. Seed and size are fixed at the start: the numbers below size are
-- the lobby, which the seed puts in order.
CREATE TABLE rooms (
    voucher_id INTEGER NOT NULL PRIMARY KEY,
    joined INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL DEFAULT 0,
    seed BLOB NULL,
    started_at DATETIME NULL
);

-- One place per account.
CREATE TABLE room_places (
    voucher_id INTEGER NOT NULL,
    user_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    joined_at DATETIME NOT NULL,
    PRIMARY KEY (voucher_id, user_id)
) WITHOUT ROWID;

-- What happened in a room, in order. kind 1: the buyers with the numbers in data are admitted until expires_at;
-- kind 2: the buyers with the numbers in data left. present is how many buyers waited, absent ones not included.
CREATE TABLE room_log (
    voucher_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    at DATETIME NOT NULL,
    expires_at DATETIME NULL,
    present INTEGER NOT NULL DEFAULT 0,
    data BLOB NOT NULL,
    PRIMARY KEY (voucher_id, seq)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE room_log;
DROP TABLE room_places;
DROP TABLE rooms;
ALTER TABLE seckill_vouchers DROP COLUMN entry_message;
ALTER TABLE seckill_vouchers DROP COLUMN entry_paused;
ALTER TABLE seckill_vouchers DROP COLUMN entry_rate;
ALTER TABLE seckill_vouchers DROP COLUMN entry_opens_at;
ALTER TABLE seckill_vouchers DROP COLUMN entry_challenge;
