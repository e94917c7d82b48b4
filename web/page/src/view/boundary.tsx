// A part of the page that cannot be drawn must not take the rest with it.

import { Component, type ComponentChildren } from "preact";

export class Boundary extends Component<{ children: ComponentChildren }, { error: Error | undefined }> {
  override state = { error: undefined };

  static override getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  override componentDidCatch(error: Error): void {
    console.error(error);
  }

  override render() {
    if (!this.state.error) return this.props.children;
    return (
      <main class="main" id="main" tabIndex={-1}>
        <div class="middle">
          <p role="alert">This part of the page could not be shown. Nothing is lost: what was said and sent is stored on the server.</p>
          <button class="button" onClick={() => location.reload()}>Reload the page</button>
        </div>
      </main>
    );
  }
}
