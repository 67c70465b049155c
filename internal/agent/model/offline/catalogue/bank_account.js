class BankAccount {
  constructor(owner) {
    this.owner = owner;
    this.balance = 0;
  }

  deposit(amount) {
    if (amount <= 0) {
      throw new RangeError("a deposit must be positive");
    }
    this.balance += amount;
  }

  withdraw(amount) {
    if (amount > this.balance) {
      throw new RangeError("not enough money");
    }
    this.balance -= amount;
  }
}

const account = new BankAccount("Ada");
account.deposit(100);
console.log("deposit 100, balance " + account.balance);
account.withdraw(30);
console.log("withdraw 30, balance " + account.balance);
try {
  account.withdraw(500);
} catch (error) {
  console.log("withdraw 500 refused: " + error.message);
}
