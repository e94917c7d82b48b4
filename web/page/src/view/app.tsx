import { notice } from "../state/actions.js";
import { route } from "../state/route.js";
import { phase } from "../state/session.js";
import { Announcer } from "./announce.js";
import { Boundary } from "./boundary.js";
import { ChatPage } from "./chat.js";
import { Dialogs } from "./dialogs.js";
import { Login } from "./login.js";
import { Operations } from "./operations.js";
import { Sidebar } from "./sidebar.js";

export function App() {
  if (phase.value === "checking") return null;
  if (phase.value === "out") return <Login />;
  const { value } = route;
  return (
    <div class="frame">
      <a class="skip" href="#main">Skip the list of chats</a>
      <Sidebar />
      <Boundary key={value.place === "chat" ? value.chat ?? "" : value.place}>
        {value.place === "chat" ? <ChatPage id={value.chat} key={value.chat ?? ""} /> : <Operations />}
      </Boundary>
      {phase.value === "ended" && <Login isOver />}
      <Dialogs />
      <Announcer />
      {notice.value && <div class={notice.value.isError ? "notice error" : "notice"} role={notice.value.isError ? "alert" : "status"}>{notice.value.text}</div>}
    </div>
  );
}
