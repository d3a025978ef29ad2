-- +goose Up
-- deleted_at is set when the person behind an account was erased: the row then has no phone, name or role, and stays
-- because orders, payments and the audit log refer to it. Only metadata changes.
ALTER TABLE users ADD COLUMN deleted_at DATETIME(3) NULL;

-- +goose Down
ALTER TABLE users DROP COLUMN deleted_at;
