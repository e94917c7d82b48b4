import { useRef, useState } from "preact/hooks";

import { login, loginError } from "../state/session.js";

/** The way in. Over the page, if the session ended while it was open: what was on screen stays readable. */
export function Login({ isOver = false }: { isOver?: boolean }) {
  const field = useRef<HTMLInputElement>(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    const token = field.current?.value.trim();
    if (!token || isBusy) return;
    if (field.current) field.current.value = "";
    setBusy(true);
    if (await login({ token }) && isOver) location.reload();
    setBusy(false);
  };
  return (
    <main class={isOver ? "login over" : "login"}>
      <form class="card" onSubmit={submit}>
        <h1>{isOver ? "Your session has ended" : "Log in to Everturn"}</h1>
        <p>
          Run <code>everturn open</code> on the machine of the server: it opens this page, logged in.
        </p>
        <label for="token">Or paste a token</label>
        <div class="row">
          <input id="token" ref={field} type="password" autocomplete="off" spellcheck={false} placeholder="evt_…" />
          <button class="primary" disabled={isBusy}>Log in</button>
        </div>
        {loginError.value && <p class="error" role="alert">{loginError.value}</p>}
        <p class="quiet">
          The first start of the server writes a token into the file <code>token</code> of its data directory. It is sent
          once and not kept here. {isOver && "Messages that were not sent yet are kept."}
        </p>
      </form>
    </main>
  );
}
