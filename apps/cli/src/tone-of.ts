import type { Verdict } from '@baton/core/judge'
import type { Tone } from './screen.ts'

/** How a verdict looks on a terminal. */
export function toneOf(verdict: Verdict): Tone {
  switch (verdict) {
    case 'running':
      return 'good'
    case 'quiet':
      return 'doubtful'
    case 'stalled':
    case 'disconnected':
    case 'orphaned':
      return 'bad'
    case 'ended':
      return 'faint'
  }
}
