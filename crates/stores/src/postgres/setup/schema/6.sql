-- How others can tell that a worker is dead before its time is over.
ALTER TABLE workers
    ADD session_lock bigint, -- The advisory lock that a session of the worker holds. If it is free, the worker is dead.
    ADD instance bytea;      -- A name that a restarted process has again, and that no two living processes have.
