/** The manifests can't be installed; the message says why and what to do. */
export class Refused extends Error {}
