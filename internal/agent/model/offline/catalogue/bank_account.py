class BankAccount:
    def __init__(self, owner):
        self.owner = owner
        self.balance = 0

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("a deposit must be positive")
        self.balance += amount

    def withdraw(self, amount):
        if amount > self.balance:
            raise ValueError("not enough money")
        self.balance -= amount


account = BankAccount("Ada")
account.deposit(100)
print("deposit 100, balance", account.balance)
account.withdraw(30)
print("withdraw 30, balance", account.balance)
try:
    account.withdraw(500)
except ValueError as error:
    print("withdraw 500 refused:", error)
