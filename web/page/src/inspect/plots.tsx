// Small plots, drawn as SVG.

export interface Series {
  name: string;
  kind: string;
  values: readonly number[];
}

const WIDTH = 320;
const HEIGHT = 80;

/** Lines over time. The table beside it says the same to those who do not see it. */
export function Lines({ title, series, unit }: { title: string; series: readonly Series[]; unit: (value: number) => string }) {
  const most = Math.max(...series.flatMap(({ values }) => values), 0);
  const len = Math.max(...series.map(({ values }) => values.length), 2);
  const x = (at: number) => (at / (len - 1)) * WIDTH;
  const y = (value: number) => HEIGHT - 4 - (most === 0 ? 0 : (value / most) * (HEIGHT - 12));
  const last = series.map(({ name, values }) => `${name} ${unit(values.at(-1) ?? 0)}`).join(", ");
  return (
    <figure class="plot">
      <figcaption><strong>{title}</strong><span class="quiet">most {unit(most)}</span></figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${title}: ${last}`} preserveAspectRatio="none">
        <path class="axis" d={`M0 ${HEIGHT - 4}H${WIDTH}`} />
        {series.map(({ name, kind, values }) => (
          <path key={name} class={`line ${kind}`} d={values.map((value, at) => `${at === 0 ? "M" : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("")} />
        ))}
      </svg>
      <p class="legend">{series.map(({ name, kind, values }) => <span key={name}><i class={kind} />{name} {unit(values.at(-1) ?? 0)}</span>)}</p>
    </figure>
  );
}

/** Bars by name, the longest first. */
export function Bars({ title, rows, unit }: { title: string; rows: ReadonlyArray<readonly [string, number]>; unit: (value: number) => string }) {
  const most = Math.max(...rows.map(([, value]) => value), 0);
  const sorted = [...rows].sort((a, b) => b[1] - a[1]).slice(0, 12);
  return (
    <figure class="plot">
      <figcaption><strong>{title}</strong></figcaption>
      {sorted.length === 0 && <p class="quiet">Nothing yet.</p>}
      <dl class="bars">
        {sorted.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd><span class="bar" style={{ width: `${most === 0 ? 0 : Math.max(1, (value / most) * 100)}%` }} /><span>{unit(value)}</span></dd>
          </div>
        ))}
      </dl>
    </figure>
  );
}
