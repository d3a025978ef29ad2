-- +goose Up
-- The console lists what staff did, and entries of one action, among many that orders leave.
ALTER TABLE audit_log ADD KEY idx_kind (actor, id), ADD KEY idx_action (action, id);

-- +goose Down
ALTER TABLE audit_log DROP KEY idx_kind, DROP KEY idx_action;
