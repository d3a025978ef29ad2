-- +goose Up
-- device_hash: the browser to which the session is bound, as the SHA-256 of its device cookie in hexadecimal; empty for
-- clients that keep the refresh token themselves, and NULL for sessions from before this column until a browser with the
-- cookie refreshes them. rotated_at: the last exchange of the refresh token. Only metadata changes.
ALTER TABLE sessions
    ADD COLUMN device_hash VARCHAR(64) NULL,
    ADD COLUMN rotated_at DATETIME(3) NULL;

-- +goose Down
ALTER TABLE sessions DROP COLUMN rotated_at, DROP COLUMN device_hash;
