-- +goose Up
-- The console lists what staff did, and entries of one action, among many that orders leave.
CREATE INDEX idx_audit_kind ON audit_log (actor, id);
CREATE INDEX idx_audit_action ON audit_log (action, id);

-- +goose Down
DROP INDEX idx_audit_kind;
DROP INDEX idx_audit_action;
