-- +goose Up
-- pay_timeout: the seconds in which an order of the sale must be paid; NULL selects the server's default. unpaid_limit:
-- how many orders of the sale a user may let expire unpaid; 0 is no limit, and NULL selects 1 for a sale that needs
-- passes and no limit otherwise. Only metadata changes.
ALTER TABLE seckill_vouchers
    ADD COLUMN pay_timeout INT NULL,
    ADD COLUMN unpaid_limit TINYINT NULL;

-- +goose Down
ALTER TABLE seckill_vouchers DROP COLUMN pay_timeout, DROP COLUMN unpaid_limit;
