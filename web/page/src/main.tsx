import { render } from "preact";

import { connect } from "./state/chats.js";
import { enter, phase } from "./state/session.js";
import { App } from "./view/app.js";
import { installCopy } from "./view/copy.js";
import { installKeys } from "./view/keys.js";

// In a frame of another page nothing is shown.
if (window.top === window.self) {
  render(<App />, document.getElementById("page") as HTMLElement);
  installKeys();
  installCopy();
  let isConnected = false;
  phase.subscribe((now) => {
    if (now !== "in" || isConnected) return;
    isConnected = true;
    void connect();
  });
  void enter();
}
