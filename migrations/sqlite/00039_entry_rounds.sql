-- +goose Up
-- A purchase counts against its pass in the transaction of the order: entry_round is the seq of the admission in room_log
-- that gave the pass, and bought the number of orders with its passes.
ALTER TABLE voucher_orders ADD COLUMN entry_round INTEGER NULL;
ALTER TABLE room_log ADD COLUMN bought INTEGER NOT NULL DEFAULT 0;

-- behind: the user had a pass of an earlier place and did not buy, so this one is behind all others.
ALTER TABLE room_places ADD COLUMN behind INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE room_places DROP COLUMN behind;
ALTER TABLE room_log DROP COLUMN bought;
ALTER TABLE voucher_orders DROP COLUMN entry_round;
