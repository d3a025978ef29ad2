-- +goose Up
-- SQLite compares text by bytes already. This migration only keeps the version numbers of both databases equal.
SELECT 1;

-- +goose Down
SELECT 1;
