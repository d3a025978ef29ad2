-- +goose Up
-- device_hash: the browser to which the session is bound, as the SHA-256 of its device cookie in hexadecimal; empty for
-- clients that keep the refresh token themselves, and NULL for sessions from before this column until a browser with the
-- cookie refreshes them. rotated_at: the last exchange of the refresh token.
ALTER TABLE sessions ADD COLUMN device_hash TEXT NULL;
ALTER TABLE sessions ADD COLUMN rotated_at DATETIME NULL;

-- +goose Down
ALTER TABLE sessions DROP COLUMN rotated_at;
ALTER TABLE sessions DROP COLUMN device_hash;
