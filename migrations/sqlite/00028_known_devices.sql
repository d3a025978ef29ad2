-- +goose Up
-- device_generation: grows when the user logs out everywhere, which makes the proofs of known devices void.
ALTER TABLE users ADD COLUMN device_generation INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE users DROP COLUMN device_generation;
