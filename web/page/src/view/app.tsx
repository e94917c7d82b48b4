import { phase } from "../state/session.js";
import { route } from "../state/route.js";
import { ChatPage } from "./chat.js";
import { Login } from "./login.js";
import { Sidebar } from "./sidebar.js";

export function App() {
  if (phase.value === "checking") return null;
  if (phase.value === "out") return <Login />;
  const { value } = route;
  return (
    <div class="frame">
      <a class="skip" href="#box">Skip to the message box</a>
      <Sidebar />
      {value.place === "chat" && <ChatPage id={value.chat} key={value.chat ?? ""} />}
      {phase.value === "ended" && <Login isOver />}
    </div>
  );
}
