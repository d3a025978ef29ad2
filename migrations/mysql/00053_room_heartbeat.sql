-- +goose Up
-- heartbeat_at: when a server could last sell, written about once a second while the room is in use. A room_log event of kind 4
-- ends a silence that began at since: the passes of that time are valid longer. Only metadata changes.
ALTER TABLE rooms ADD COLUMN heartbeat_at DATETIME(3) NULL;
ALTER TABLE room_log ADD COLUMN since DATETIME(3) NULL;

-- +goose Down
ALTER TABLE room_log DROP COLUMN since;
ALTER TABLE rooms DROP COLUMN heartbeat_at;
