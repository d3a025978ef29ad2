-- +goose Up
-- Two references that differ in capitals are two payments; the database's default comparison would take them for one,
-- and the second buyer's money for a repeated notice.
ALTER TABLE payments MODIFY provider_ref VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL;

-- +goose Down
ALTER TABLE payments MODIFY provider_ref VARCHAR(128) NOT NULL;
