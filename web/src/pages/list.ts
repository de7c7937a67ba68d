// All pages, in the order of the navigation.

import { Page } from '../core/page';
import { page as compare } from './compare';
import { page as cpu } from './cpu';
import { page as dashboard } from './dashboard';
import { page as findings } from './findings';
import { page as gpu } from './gpu';
import { page as history } from './history';
import { page as inference } from './inference';
import { page as memory } from './memory';
import { page as report } from './report';
import { page as requests } from './requests';
import { page as system } from './system';

export const PAGES: readonly Page[] = [
    dashboard, inference, requests, cpu, memory, gpu, system, history, compare, findings, report,
];
