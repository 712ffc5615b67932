-- A run can be asked from any process to end; it sees that when it renews its lease.
alter table run add column cancel_requested_at timestamptz;
