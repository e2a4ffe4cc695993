import { collectDefaultMetrics, Gauge, Registry } from 'prom-client'

export { Counter, Gauge, Histogram, Registry } from 'prom-client'

/** A registry with what every process has: CPU, memory, event loop, garbage collection. */
export function processRegistry(): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  return registry
}

/** A gauge that is read the moment somebody asks. */
export const addGauge = (registry: Registry, name: string, help: string, read: () => number): Gauge =>
  new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(read())
    },
  })
