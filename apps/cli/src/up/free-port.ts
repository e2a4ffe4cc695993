import { createServer } from 'node:net'

/** How many ports are tried before the wish is called hopeless. */
const TRIES = 200

/** The first port from `wanted` on that nobody listens on and that is not in `taken`; it is added to `taken`. */
export async function freePort(wanted: number, host: string, taken: Set<number>): Promise<number> {
  for (let port = wanted; port < wanted + TRIES && port < 65_536; port++) {
    if (taken.has(port) || !(await isFree(port, host))) continue
    taken.add(port)
    return port
  }
  throw new Error(`no free port from ${wanted} on`)
}

function isFree(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)))
  })
}
