// Numbers as words.

import type { Money } from "@everturn/client";

/** Money of millionths of a dollar: never rounded to nothing. */
export function dollars(micros: number): string {
  const amount = micros / 1e6;
  if (amount === 0) return "$0";
  if (amount < 0.001) return "<$0.001";
  return `$${amount.toFixed(amount < 0.1 ? 3 : 2)}`;
}

/** Known and estimated money, never added silently. */
export function cost({ known_micros, estimated_micros }: Money): string {
  const whole = dollars(known_micros + estimated_micros);
  return estimated_micros > 0 ? `${whole}, of it ~${dollars(estimated_micros)} estimated` : whole;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function count(value: number): string {
  return value.toLocaleString("en-US");
}

export function bytes(size: number): string {
  if (size < 1024) return `${size} B`;
  if (size < 1024 * 1024) return `${(size / 1024).toFixed(0)} KiB`;
  return `${(size / 1024 / 1024).toFixed(1)} MiB`;
}

export function clock(at: number): string {
  return new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

export function dateAndTime(at: number): string {
  return new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

/** How long ago, in one short word. */
export function ago(at: number, now: number): string {
  const minutes = Math.floor((now - at) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
  const days = Math.floor(minutes / 60 / 24);
  return days < 7 ? `${days} d` : new Date(at).toLocaleDateString([], { day: "numeric", month: "short" });
}

export function countWords(text: string): number {
  return text.match(/\S+/g)?.length ?? 0;
}

/** One of something, or several. */
export function some(amount: number, one: string, many = `${one}s`): string {
  return `${count(amount)} ${amount === 1 ? one : many}`;
}

/** The model without its provider. */
export function modelName(id: string): string {
  return id.slice(id.indexOf("/") + 1);
}
