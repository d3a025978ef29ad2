-- +goose Up
-- Two references that differ only in case are two payments. With the default collation they would be equal, and the
-- second payment would be treated as a repeated notice.
ALTER TABLE payments MODIFY provider_ref VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL;

-- +goose Down
ALTER TABLE payments MODIFY provider_ref VARCHAR(128) NOT NULL;
