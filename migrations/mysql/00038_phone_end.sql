-- +goose Up
-- Orders are found by the last four digits of the buyer's phone number. Logins go on meanwhile.
ALTER TABLE users ADD COLUMN phone_end CHAR(4) GENERATED ALWAYS AS (RIGHT(phone, 4)) VIRTUAL;
ALTER TABLE users ADD KEY idx_phone_end (phone_end), ALGORITHM = INPLACE, LOCK = NONE;

-- +goose Down
ALTER TABLE users DROP KEY idx_phone_end;
ALTER TABLE users DROP COLUMN phone_end;
