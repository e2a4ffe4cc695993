import { JetStreamApiError } from '@nats-io/jetstream'
import type { Nats } from './connect.ts'
import { BUCKET, bucketStream } from './names.ts'
import { API } from './nats-errors.ts'

/** False where the server says that there is nothing of Baton: other failures may only mean that nobody made it yet. */
export async function isSetUp(nats: Nats): Promise<boolean> {
  try {
    await nats.jsm.streams.info(bucketStream(BUCKET.runs))
    return true
  } catch (error) {
    return !(error instanceof JetStreamApiError && error.code === API.streamNotFound)
  }
}
