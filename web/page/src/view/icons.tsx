// A few line drawings.

const PATHS = {
  add: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14ZM20 20l-4-4",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  menu: "M4 7h16M4 12h16M4 17h16",
  more: "M5.5 12h1M11.5 12h1M17.5 12h1",
  close: "M6 6l12 12M18 6 6 18",
  copy: "M9 9h10v11H9zM15 9V4H5v11h4",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  fork: "M7 8v8M7 8a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM7 20a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM17 8a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM17 8c0 4-10 3-10 8",
  again: "M20 11a8 8 0 1 0-2 6M20 4v7h-7",
  attach: "M19 11l-7.5 7.5a4.2 4.2 0 0 1-6-6L13 5a2.8 2.8 0 0 1 4 4l-7.5 7.5a1.4 1.4 0 0 1-2-2L14 8",
  down: "M12 5v14M6 13l6 6 6-6",
  check: "M5 12.5l4.5 4.5L19 7.5",
  cross: "M7 7l10 10M17 7 7 17",
  wait: "M12 8v4l3 2M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16Z",
  look: "M12 11v6M12 7.5h.01M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17Z",
  chevron: "M9 6l6 6-6 6",
  chart: "M5 20V10M12 20V4M19 20v-7",
  key: "M14 10a4 4 0 1 0-3.5 4L13 16h2v2h2v2h3v-3l-6-6Z",
  steer: "M5 12h12M13 7l5 5-5 5",
  tool: "M14.5 6.5a4 4 0 0 1 5-1l-3 3 1 1 3-3a4 4 0 0 1-5.5 5L8 18.5A1.8 1.8 0 0 1 5.5 16l7-7a4 4 0 0 1 2-2.5Z",
  file: "M7 3h7l5 5v13H7zM14 3v5h5",
  spark: "M12 4v4M12 16v4M4 12h4M16 12h4M6.5 6.5 9 9M15 15l2.5 2.5M17.5 6.5 15 9M9 15l-2.5 2.5",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
