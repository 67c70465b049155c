/** The time, for texts such as "3 minutes ago". */
class Clock {
  ms = $state(Date.now());
  constructor() {
    setInterval(() => (this.ms = Date.now()), 1000);
  }
}

export const clock = new Clock();
