-- +goose Up
-- Orders are found by the last four digits of the buyer's phone number.
ALTER TABLE users ADD COLUMN phone_end TEXT GENERATED ALWAYS AS (substr(phone, -4)) VIRTUAL;
CREATE INDEX idx_users_phone_end ON users (phone_end);

-- +goose Down
DROP INDEX idx_users_phone_end;
ALTER TABLE users DROP COLUMN phone_end;
