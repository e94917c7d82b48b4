// Reads Prometheus text.

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export class Metrics {
  readonly #byName = new Map<string, Sample[]>();

  constructor(text: string) {
    for (const line of text.split("\n")) {
      const found = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
      if (!found) continue;
      const [, name, labels, value] = found as unknown as [string, string, string | undefined, string];
      const sample = { name, labels: labelsOf(labels ?? ""), value: value === "+Inf" ? Infinity : Number(value) };
      this.#byName.set(name, [...(this.#byName.get(name) ?? []), sample]);
    }
  }

  all(name: string): readonly Sample[] {
    return this.#byName.get(name) ?? [];
  }

  /** The sum of all samples with these labels. */
  sum(name: string, labels: Record<string, string> = {}): number {
    const fits = (sample: Sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value);
    return this.all(name).filter(fits).reduce((sum, { value }) => sum + value, 0);
  }

  /** Sums by the value of a label. */
  by(name: string, label: string): Array<readonly [string, number]> {
    const sums = new Map<string, number>();
    for (const sample of this.all(name)) {
      const value = sample.labels[label] ?? "";
      sums.set(value, (sums.get(value) ?? 0) + sample.value);
    }
    return [...sums];
  }

  /** A quantile of a histogram in seconds; nothing if it has no observations. As Prometheus estimates it. */
  quantile(name: string, part: number): number | undefined {
    const buckets = new Map<number, number>();
    for (const { labels, value } of this.all(`${name}_bucket`)) {
      const bound = labels["le"] === "+Inf" ? Infinity : Number(labels["le"]);
      buckets.set(bound, (buckets.get(bound) ?? 0) + value);
    }
    const sorted = [...buckets].sort((a, b) => a[0] - b[0]);
    const total = sorted.at(-1)?.[1] ?? 0;
    if (total === 0) return undefined;
    let from = 0;
    let below = 0;
    for (const [bound, counted] of sorted) {
      if (counted >= part * total) {
        if (bound === Infinity) return from;
        return counted === below ? bound : from + (bound - from) * ((part * total - below) / (counted - below));
      }
      from = bound;
      below = counted;
    }
    return from;
  }
}

function labelsOf(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (const found of text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
    labels[found[1] as string] = (found[2] as string).replace(/\\(.)/g, (_, sign: string) => (sign === "n" ? "\n" : sign));
  }
  return labels;
}
