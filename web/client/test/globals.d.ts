/** The folder of the fixtures that the server's tests write. */
declare const FIXTURES: string;
