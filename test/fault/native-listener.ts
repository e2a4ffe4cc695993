import { connectNats, type Nats } from '@baton/store/connect'
import { liveRunSubject } from '@baton/store/names'
import type { Heard } from '../kit/check-published.ts'
import type { World } from './world.ts'

/** A native subscriber of all runs; some of it may be missing, as in core NATS. It reaches NATS through no proxy of ours. */
export class NativeListener {
  readonly heard: Heard[] = []
  readonly #nats: Nats

  private constructor(nats: Nats) {
    this.#nats = nats
  }

  static async start(world: World): Promise<NativeListener> {
    const servers = world.servers.map(({ url }) => url)
    const nats = await connectNats({ servers, name: 'test-listener' }, AbortSignal.timeout(20_000))
    const listener = new NativeListener(nats)
    nats.nc.subscribe(liveRunSubject('*'), {
      callback: (error, message) => {
        if (error !== null) return
        listener.heard.push({
          run: message.subject.replace(/^live\.run\./, ''),
          sequence: Number(message.headers?.get('Nats-Sequence')),
          index: Number(message.headers?.get('Baton-Index')),
          data: message.string(),
        })
      },
    })
    return listener
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#nats.nc.close()
  }
}
