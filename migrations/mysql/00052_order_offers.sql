-- +goose Up
-- offer_id: what was bought, in the table offers; NULL for orders of other programs and of earlier releases, which show
-- what their voucher says now. Only metadata changes.
ALTER TABLE voucher_orders ADD COLUMN offer_id BINARY(16) NULL;

-- +goose Down
ALTER TABLE voucher_orders DROP COLUMN offer_id;
