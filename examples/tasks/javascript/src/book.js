'use strict';

const { parse } = require('./parse');

class Book {
  constructor(text) {
    this.people = parse(text);
  }

  find(name) {
    return this.people.find((person) => person.name === name);
  }

  inCity(city) {
    return this.people.filter((person) => person.city === city).map((person) => person.name);
  }
}

module.exports = { Book };
