-- When a worker locked its number in its session, and since when that session is known to be gone. A worker of an
-- earlier release has neither: whether it lives is told by its heartbeat alone.
alter table worker add column locked_at timestamptz, add column gone_at timestamptz;
