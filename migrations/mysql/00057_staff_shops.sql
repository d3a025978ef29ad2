-- +goose Up
-- shop_ids: the ids of the shops whose vouchers a redeemer may redeem, as a JSON array; NULL: all. Only metadata changes.
ALTER TABLE users ADD COLUMN shop_ids VARCHAR(1100) CHARACTER SET ascii NULL;

-- +goose Down
ALTER TABLE users DROP COLUMN shop_ids;
