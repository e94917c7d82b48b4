-- Sessions of the web page, and the codes that open them, are tokens that end with their parent.
ALTER TABLE tokens ADD COLUMN kind text NOT NULL DEFAULT 'token';
ALTER TABLE tokens ADD COLUMN parent bytea;
