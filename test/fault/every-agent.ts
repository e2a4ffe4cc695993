import type { FaultRunOptions } from './fault-run.ts'

/**
 * Every way in which an agent may serve one who comes back, and a run of large events that slow readers fall behind.
 * Agents whose ids say nothing about what they send again are registered as what they are.
 */
export const everyAgent: FaultRunOptions['runs'] = [
  { mode: 'id', resume: 'auto', perSecond: 100, dataBytes: 4096 },
  { mode: 'id', resume: 'auto', perSecond: 50, idEvery: 3 },
  { mode: 'id', resume: 'last-event-id', perSecond: 50 },
  { mode: 'replay', resume: 'replay', perSecond: 50 },
  { mode: 'replay', resume: 'auto', perSecond: 50, idEvery: 0 },
  { mode: 'window', resume: 'replay', perSecond: 20 },
  { mode: 'none', resume: 'none', perSecond: 50 },
  { mode: 'none', resume: 'auto', perSecond: 20, idEvery: 0 },
]
